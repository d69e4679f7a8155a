//go:build !race

#include "textflag.h"
#include "go_asm.h"

// A lookup takes as long as the processor needs to get through its instructions to those of the next one, whose cache
// misses it then overlaps with. So there are few, and no branch depends on a key: a comparison that depends on one is
// added up from the carry flag. A lookup in Go takes twice as many.
//
// BX is the key, R13 zero.

// ATLEAST adds 1 to n if BX >= key.
#define ATLEAST(key, n) \
	CMPQ BX, key; \
	SBBQ $-1, n

// START leaves in DX where the window of BX begins, of the line with these fields: model.start.
#define START(origin, slope, limit) \
	MOVQ    BX, AX; \
	SUBQ    origin, AX; \
	CMOVQCS R13, AX; \
	MULQ    slope; \
	MOVWLZX limit, CX; \
	CMPQ    DX, CX; \
	CMOVQHI CX, DX

// WINDOW leaves in DX the last of R9 keys from (R8)(DX*8) on that is at most BX, or DX: predecessor. Times 171 and by 512 is
// a third of up to 255.
#define WINDOW(loop, two, one) \
loop: \
	CMPQ R9, $2; \
	JLE  two; \
	MOVQ R9, AX; \
	MOVQ DX, CX; \
	IMULQ $0xab, AX; \
	SHRQ $9, AX; \
	LEAQ (R8)(AX*8), R10; \
	LEAQ (CX)(AX*1), DX; \
	LEAQ (AX)(AX*1), R11; \
	SUBQ R11, R9; \
	XORL R11, R11; \
	CMPQ BX, (R10)(CX*8); \
	SBBQ $-1, R11; \
	CMPQ BX, (R10)(DX*8); \
	SBBQ $-1, R11; \
	IMULQ R11, AX; \
	LEAQ (CX)(AX*1), DX; \
	JMP  loop; \
two: \
	JLT  one; \
	MOVQ DX, CX; \
	CMPQ BX, 8(R8)(CX*8); \
	SBBQ $-1, DX; \
one:

// POSITION leaves in DX the position of the last key that is at most BX, or of the window's first, after READ.
#define POSITION(wide, wide1, wide2, wide3, found) \
	CMPQ    R9, $18; \
	JNE     wide; \
	LEAQ    (R8)(DX*8), R9; \
	XORL    AX, AX; \
	ATLEAST(48(R9), AX); \
	ATLEAST(96(R9), AX); \
	LEAQ    (AX)(AX*2), AX; \
	ADDQ    AX, AX; \
	MOVQ    AX, CX; \
	ATLEAST(16(R9)(AX*8), CX); \
	ATLEAST(32(R9)(AX*8), CX); \
	ADDQ    CX, CX; \
	SUBQ    AX, CX; \
	ADDQ    CX, DX; \
	ATLEAST(8(R9)(CX*8), DX); \
	JMP     found; \
wide: \
	WINDOW(wide1, wide2, wide3) \
found:

// DESCEND leaves in DI the slot of the leaf of BX below the node SI. While the pivots are on their way it asks for the slot
// that a line without error leads to: the fourth of the window, or the fifth where half a position was rounded off.
#define DESCEND(level, above, wide, wide1, wide2, wide3, below, done) \
	XORL R13, R13; \
level: \
	XORL R8, R8; \
	ATLEAST(0(SI), R8); \
	ATLEAST(8(SI), R8); \
	ATLEAST(16(SI), R8); \
	ATLEAST(24(SI), R8); \
	ATLEAST(32(SI), R8); \
	ATLEAST(40(SI), R8); \
	MOVQ    const_innerCount(SI), CX; \
	DECQ    CX; \
	CMPQ    R8, CX; \
	CMOVQHI CX, R8; \
	IMULQ   $const_segmentBytes, R8; \
	LEAQ    const_innerSegments(SI)(R8*1), SI; \
	START(const_segmentOrigin(SI), const_segmentSlope(SI), const_segmentLimit(SI)); \
	MOVQ    const_segmentWindow(SI), R8; \
	MOVQ    const_segmentLeaves(SI), DI; \
	TESTQ   DI, DI; \
	JZ      above; \
	SHRQ    $63, AX; \
	ADDQ    DX, AX; \
	SHLQ    $6, AX; \
	PREFETCHT0 256(DI)(AX*1); \
above: \
	MOVWLZX const_segmentWidth(SI), R9; \
	CMPQ    R9, $10; \
	JHI     wide; \
	LEAQ    (R8)(DX*8), R8; \
	XORL    AX, AX; \
	ATLEAST(24(R8), AX); \
	ATLEAST(48(R8), AX); \
	LEAQ    (AX)(AX*2), AX; \
	MOVQ    AX, CX; \
	ATLEAST(8(R8)(AX*8), CX); \
	ATLEAST(16(R8)(AX*8), CX); \
	MOVQ    CX, AX; \
	ATLEAST(8(R8)(AX*8), CX); \
	ADDQ    CX, DX; \
	MOVQ    const_segmentCount(SI), CX; \
	DECQ    CX; \
	CMPQ    DX, CX; \
	CMOVQHI CX, DX; \
below: \
	TESTQ   DI, DI; \
	JNZ     done; \
	MOVQ    const_segmentNodes(SI), DI; \
	MOVQ    (DI)(DX*8), SI; \
	JMP     level; \
wide: \
	WINDOW(wide1, wide2, wide3) \
	JMP     below; \
done: \
	SHLQ    $6, DX; \
	ADDQ    DX, DI

// READ loads what the slot DI says: the leaf to R12, keys to R8, values to SI, the buffer to R10, the beginning and the width
// of the window of BX to DX and R9, the line's limit to CX. It goes to slow where that does not belong together, or there is
// no leaf. What is read of the slot after it may be another leaf's.
#define READ(slow) \
	MOVQ    const_slotShown(DI), R12; \
	MOVQ    const_slotKeys(DI), R8; \
	MOVQ    const_slotValues(DI), SI; \
	MOVQ    const_slotBuffer(DI), R10; \
	START(const_slotOrigin(DI), const_slotSlope(DI), const_slotLimit(DI)); \
	MOVWLZX const_slotWidth(DI), R9; \
	TESTQ   R12, R12; \
	JZ      slow; \
	CMPQ    const_slotShown(DI), R12; \
	JNE     slow

// GUESS asks for the value that is likeliest, after READ. CX is the size of a value.
#define GUESS \
	LEAQ    8(DX), AX; \
	IMULQ   AX, CX; \
	PREFETCHT0 (SI)(CX*1)

// MATCHES leaves in m two bits for each slot of the buffer b, of which the lower one is set where the slot's key is BX: the
// place of its state's lower bit. It compares halves of keys, as the oldest processors can, and packs what comes out.
#define MATCHES(b, m) \
	MOVQ       BX, X0; \
	PUNPCKLQDQ X0, X0; \
	MOVOU      const_bufferKeysAt+0(b), X1; \
	MOVOU      const_bufferKeysAt+16(b), X2; \
	MOVOU      const_bufferKeysAt+32(b), X3; \
	MOVOU      const_bufferKeysAt+48(b), X4; \
	MOVOU      const_bufferKeysAt+64(b), X5; \
	MOVOU      const_bufferKeysAt+80(b), X6; \
	MOVOU      const_bufferKeysAt+96(b), X7; \
	MOVOU      const_bufferKeysAt+112(b), X8; \
	PCMPEQL    X0, X1; \
	PCMPEQL    X0, X2; \
	PCMPEQL    X0, X3; \
	PCMPEQL    X0, X4; \
	PCMPEQL    X0, X5; \
	PCMPEQL    X0, X6; \
	PCMPEQL    X0, X7; \
	PCMPEQL    X0, X8; \
	PACKSSLW   X2, X1; \
	PACKSSLW   X4, X3; \
	PACKSSLW   X6, X5; \
	PACKSSLW   X8, X7; \
	PACKSSWB   X3, X1; \
	PACKSSWB   X7, X5; \
	PMOVMSKB   X1, m; \
	PMOVMSKB   X5, CX; \
	SHLL       $16, CX; \
	ORL        CX, m; \
	MOVL       m, CX; \
	SHRL       $1, CX; \
	ANDL       CX, m

// COMMITTED leaves in c the lower bit of each slot that the state w calls put or deleted.
#define COMMITTED(w, c) \
	MOVL w, c; \
	SHRL $1, c; \
	XORL w, c; \
	ANDL $0x55555555, c

// ELSE is what search and find have behind the arrays. A buffer, R10, is looked at first: its state before its keys, since slots
// that it calls committed do not change, and of those the newest, which may delete. A slot whose words do not belong together is
// given back.
#define ELSE(buffered, arrays, missing, slow) \
buffered: \
	MOVQ  (R10), R12; \
	MATCHES(R10, AX); \
	COMMITTED(R12, CX); \
	ANDL  CX, AX; \
	JZ    arrays; \
	BSRL  AX, CX; \
	BTL   CX, R12; \
	JCC   missing; \
	SHRL  $1, CX; \
	IMULQ size+16(FP), CX; \
	LEAQ  const_bufferValuesAt(R10)(CX*1), SI; \
	MOVQ  SI, value+24(FP); \
	MOVQ  R13, slow+32(FP); \
	RET; \
missing: \
	MOVQ R13, value+24(FP); \
	MOVQ R13, slow+32(FP); \
	RET; \
slow: \
	MOVQ R13, value+24(FP); \
	MOVQ DI, slow+32(FP); \
	RET

// func descend(node unsafe.Pointer, k uint64) (at unsafe.Pointer)
TEXT ·descend(SB), NOSPLIT, $0-24
	MOVQ node+0(FP), SI
	MOVQ k+8(FP), BX
	DESCEND(level, above, wide, wide1, wide2, wide3, below, done)
	MOVQ DI, at+16(FP)
	RET

// func search(at unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer)
TEXT ·search(SB), NOSPLIT, $0-40
	MOVQ at+0(FP), DI
	MOVQ k+8(FP), BX
	XORL R13, R13
	READ(slow)
	TESTQ R10, R10
	JNZ   buffered
arrays:
	TESTQ R9, R9
	JZ    missing
	POSITION(wide, wide1, wide2, wide3, found)
	CMPQ  BX, (R8)(DX*8)
	JNE   missing
	IMULQ size+16(FP), DX
	ADDQ  DX, SI
	PREFETCHT0 (SI)
	MOVQ  SI, value+24(FP)
	MOVQ  R13, slow+32(FP)
	RET
	ELSE(buffered, arrays, missing, slow)

// func find(node unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer)
TEXT ·find(SB), NOSPLIT, $0-40
	MOVQ node+0(FP), SI
	MOVQ k+8(FP), BX
	DESCEND(level, above, wide, wide1, wide2, wide3, below, done)
	READ(slow)
	TESTQ R10, R10
	JNZ   buffered
arrays:
	TESTQ R9, R9
	JZ    missing
	MOVQ  size+16(FP), CX
	GUESS
	POSITION(broad, broad1, broad2, broad3, found)
	CMPQ  BX, (R8)(DX*8)
	JNE   missing
	IMULQ size+16(FP), DX
	ADDQ  DX, SI
	MOVQ  SI, value+24(FP)
	MOVQ  R13, slow+32(FP)
	RET
	ELSE(buffered, arrays, missing, slow)

// func seek(node unsafe.Pointer, k uint64, size uintptr, p *spot) (slow unsafe.Pointer)
TEXT ·seek(SB), NOSPLIT, $0-40
	MOVQ node+0(FP), SI
	MOVQ k+8(FP), BX
	DESCEND(level, above, wide, wide1, wide2, wide3, below, done)
	READ(slow)
	MOVQ  p+24(FP), R11
	MOVQ  R12, spot_leaf(R11)
	MOVQ  R8, spot_keys(R11)
	MOVQ  SI, spot_values(R11)
	MOVQ  R10, spot_buffer(R11)
	ADDQ  R9, CX
	MOVQ  CX, spot_n(R11)
	TESTQ CX, CX
	JZ    empty
	TESTQ R10, R10
	JZ    clean
	PREFETCHT0 (R10)
	PREFETCHT0 64(R10)
	PREFETCHT0 128(R10)
clean:
	PREFETCHT0 152(R8)(DX*8)
	LEAQ  12(DX), CX
	IMULQ size+16(FP), CX
	PREFETCHT0 (SI)(CX*1)
	PREFETCHT0 56(SI)(CX*1)
	MOVQ  size+16(FP), CX
	GUESS
	POSITION(broad, broad1, broad2, broad3, found)
	MOVQ  p+24(FP), R11
	CMPQ  (R8)(DX*8), BX
	ADCQ  $0, DX
empty:
	MOVQ  DX, spot_i(R11)
	MOVQ  R13, slow+32(FP)
	RET
slow:
	MOVQ  DI, slow+32(FP)
	RET

// func aim(node unsafe.Pointer, k uint64, search bool, t *target) (slow unsafe.Pointer)
TEXT ·aim(SB), NOSPLIT, $0-40
	MOVQ node+0(FP), SI
	MOVQ k+8(FP), BX
	DESCEND(level, above, wide, wide1, wide2, wide3, below, done)
	READ(slow)
	MOVQ  t+24(FP), R11
	TESTQ R10, R10
	JZ    unbuffered
	PREFETCHT0 (R10)
	PREFETCHT0 64(R10)
	PREFETCHT0 128(R10)
	PREFETCHT0 192(R10)
	PREFETCHT0 256(R10)
unbuffered:
	CMPB  search+16(FP), $0
	JEQ   blind
	PREFETCHT0 48(R8)(DX*8)
	PREFETCHT0 96(R8)(DX*8)
blind:
	MOVQ  R12, target_leaf(R11)
	MOVQ  R8, target_keys(R11)
	MOVQ  SI, target_values(R11)
	MOVQ  R10, target_buffer(R11)
	MOVQ  DX, target_start(R11)
	MOVQ  R9, target_width(R11)
	ADDQ  R9, CX
	MOVQ  CX, target_n(R11)
	MOVQ  R13, slow+32(FP)
	RET
slow:
	MOVQ  DI, slow+32(FP)
	RET

// func hit(t *target, k uint64) int
TEXT ·hit(SB), NOSPLIT, $0-24
	MOVQ t+0(FP), DI
	MOVQ k+8(FP), BX
	MOVQ target_keys(DI), R8
	MOVQ target_start(DI), DX
	MOVQ target_width(DI), R9
	POSITION(wide, wide1, wide2, wide3, found)
	MOVQ DX, ret+16(FP)
	RET

// func ahead(at unsafe.Pointer, k uint64)
TEXT ·ahead(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), DI
	MOVQ k+8(FP), BX
	XORL R13, R13
	MOVQ const_slotKeys(DI), R8
	START(const_slotOrigin(DI), const_slotSlope(DI), const_slotLimit(DI))
	PREFETCHT0 48(R8)(DX*8)
	PREFETCHT0 96(R8)(DX*8)
	MOVQ  const_slotBuffer(DI), R10
	TESTQ R10, R10
	JZ    clean
	PREFETCHT0 (R10)
	PREFETCHT0 64(R10)
	PREFETCHT0 128(R10)
clean:
	RET

// func matches(b unsafe.Pointer, k uint64, among uint32) uint32
TEXT ·matches(SB), NOSPLIT, $0-28
	MOVQ b+0(FP), R10
	MOVQ k+8(FP), BX
	MATCHES(R10, AX)
	ANDL among+16(FP), AX
	MOVL AX, ret+24(FP)
	RET

// func fetch(at unsafe.Pointer, bytes uintptr)
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), AX
	MOVQ bytes+8(FP), CX
lines:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	SUBQ $64, CX
	JGT  lines
	RET

// func places(m *model, keys []uint64, of *[maxBuffer]uint64, n int, at *[maxBuffer]int)
TEXT ·places(SB), NOSPLIT, $0-56
	MOVQ m+0(FP), DI
	MOVQ keys_base+8(FP), R8
	MOVQ of+32(FP), R12
	MOVQ at+48(FP), SI
	XORL R13, R13
	CMPW model_width(DI), $0
	JEQ  empty
	CMPQ n+40(FP), $0
	JEQ  empty
next:
	MOVQ (R12), BX
	START(model_origin(DI), model_slope(DI), model_limit(DI))
	MOVWLZX model_width(DI), R9
	POSITION(wide, wide1, wide2, wide3, found)
	CMPQ (R8)(DX*8), BX
	ADCQ $0, DX
	MOVQ DX, (SI)
	ADDQ $8, SI
	ADDQ $8, R12
	DECQ n+40(FP)
	JNZ  next
empty:
	RET

// func proven(m *model, keys []uint64) int
TEXT ·proven(SB), NOSPLIT, $0-40
	MOVQ m+0(FP), DI
	MOVQ keys_base+8(FP), R8
	MOVQ keys_len+16(FP), R12
	XORL R13, R13
	MOVQ model_origin(DI), R9
	MOVQ model_slope(DI), R11
	MOVWLZX model_width(DI), R10
	DECQ R10
	MOVL $1, SI
next:
	CMPQ SI, R12
	JGE  done
	MOVQ (R8)(SI*8), BX
	START(R9, R11, model_limit(DI))
	NOTQ DX
	ADDQ SI, DX // the key's place, less 1 and less the window's beginning
	CMPQ DX, R10
	JCC  done
	INCQ SI
	JMP  next
done:
	MOVQ SI, ret+32(FP)
	RET
