//go:build !race

#include "textflag.h"
#include "go_asm.h"

// ATLEAST adds 1 to AX if BX is at least the key.
#define ATLEAST(key) \
	CMPQ BX, key; \
	SBBQ $-1, AX

// func sumOver(keys []uint64, base, shift uint64) uint64
TEXT ·sumOver(SB), NOSPLIT, $0-48
	MOVQ keys_base+0(FP), R8
	MOVQ keys_len+8(FP), R12
	MOVQ base+24(FP), R9
	MOVQ shift+32(FP), CX
	MOVQ R9, X8
	PUNPCKLQDQ X8, X8
	MOVQ CX, X9
	PXOR X2, X2
	PXOR X3, X3
	XORL DX, DX
	SUBQ $4, R12
	JLT  rest
next:
	MOVOU (R8), X0
	MOVOU 16(R8), X1
	PSUBQ X8, X0
	PSUBQ X8, X1
	PSRLQ X9, X0
	PSRLQ X9, X1
	PADDQ X0, X2
	PADDQ X1, X3
	ADDQ  $32, R8
	SUBQ  $4, R12
	JGE   next
	PADDQ X3, X2
	MOVQ  X2, DX
	PSRLO $8, X2
	MOVQ  X2, AX
	ADDQ  AX, DX
rest:
	ADDQ $4, R12
	JZ   done
one:
	MOVQ (R8), AX
	SUBQ R9, AX
	SHRQ CX, AX
	ADDQ AX, DX
	ADDQ $8, R8
	DECQ R12
	JNZ  one
done:
	MOVQ DX, ret+40(FP)
	RET

// RESIDUALS widens X5 and X6 by the residuals of two keys. X7 has their positions.
#define RESIDUALS(keys, t, r) \
	MOVOU   keys, t; \
	PSUBQ   X8, t; \
	PSRLQ   X9, t; \
	PMULULQ X10, t; \
	PSRLQ   X11, t; \
	POR     X12, t; \
	MOVAPD  X7, r; \
	SUBPD   t, r; \
	MINPD   r, X5; \
	MAXPD   r, X6; \
	ADDPD   X13, X7

// func spread(keys []uint64, p *pace) (least, most int64)
//
// Positions are integers that doubles hold exactly: the lower bits of 2^52 and what is added to it.
TEXT ·spread(SB), NOSPLIT, $0-48
	MOVQ keys_base+0(FP), R8
	MOVQ keys_len+8(FP), R12
	MOVQ (R8), X8
	PUNPCKLQDQ X8, X8
	MOVQ p+24(FP), DI
	MOVQ pace_coarse(DI), X9
	MOVQ pace_factor(DI), X10
	PUNPCKLQDQ X10, X10
	MOVQ pace_shift(DI), X11
	MOVQ $0x4330000000000000, AX // 2^52
	MOVQ AX, X12
	PUNPCKLQDQ X12, X12
	MOVQ $0x4330000100000000, AX // 2^52 + 2^32
	MOVQ AX, X7
	MOVAPD X12, X0
	PUNPCKLQDQ X7, X0
	MOVAPD X0, X7
	MOVQ $0x4200000000000000, AX // 2^33
	MOVQ AX, X13
	PUNPCKLQDQ X13, X13
	PXOR X5, X5
	PXOR X6, X6
	SUBQ $4, R12
	JLT  rest
next:
	RESIDUALS(0(R8), X0, X1)
	RESIDUALS(16(R8), X2, X3)
	ADDQ $32, R8
	SUBQ $4, R12
	JGE  next
rest:
	ADDQ $2, R12
	JLT  last
	RESIDUALS(0(R8), X0, X1)
	ADDQ $16, R8
	SUBQ $2, R12
last:
	ADDQ $2, R12
	JZ   done
	MOVQ (R8), X0
	PSUBQ   X8, X0
	PSRLQ   X9, X0
	PMULULQ X10, X0
	PSRLQ   X11, X0
	POR     X12, X0
	SUBSD   X0, X7
	MINSD   X7, X5
	MAXSD   X7, X6
done:
	MOVAPD   X5, X0
	UNPCKHPD X0, X0
	MINSD    X0, X5
	MOVAPD   X6, X1
	UNPCKHPD X1, X1
	MAXSD    X1, X6
	CVTTSD2SQ X5, AX
	CVTTSD2SQ X6, CX
	MOVQ AX, least+32(FP)
	MOVQ CX, most+40(FP)
	RET

// func ranks(keys *[maxBuffer]uint64, order *[maxBuffer]uint8)
TEXT ·ranks(SB), NOSPLIT, $0-16
	MOVQ keys+0(FP), R8
	MOVQ order+8(FP), DI
	XORL SI, SI
next:
	MOVQ (R8)(SI*8), BX
	MOVQ $-1, AX
	ATLEAST(0(R8))
	ATLEAST(8(R8))
	ATLEAST(16(R8))
	ATLEAST(24(R8))
	ATLEAST(32(R8))
	ATLEAST(40(R8))
	ATLEAST(48(R8))
	ATLEAST(56(R8))
	ATLEAST(64(R8))
	ATLEAST(72(R8))
	ATLEAST(80(R8))
	ATLEAST(88(R8))
	ATLEAST(96(R8))
	ATLEAST(104(R8))
	ATLEAST(112(R8))
	ATLEAST(120(R8))
	MOVB SI, (DI)(AX*1)
	INCQ SI
	CMPQ SI, $const_maxBuffer
	JLT  next
	RET

// func weaveWords(to, from []uint64, written *[maxBuffer]uint64, all *gaps)
//
// Gaps are short and of random length, so each end of an exact copy would be a branch that is foreseen wrongly. Eight words are
// copied at once, where so many are left: what comes behind the gap is written afterwards.
TEXT ·weaveWords(SB), NOSPLIT, $0-64
	MOVQ to_base+0(FP), DI
	MOVQ to_len+8(FP), R12
	MOVQ from_base+24(FP), SI
	MOVQ from_len+32(FP), R13
	MOVQ written+48(FP), R11
	MOVQ all+56(FP), R10
	LEAQ -64(DI)(R12*8), R12 // where the last eight begin
	LEAQ -64(SI)(R13*8), R13
	MOVQ gaps_n(R10), R9
	LEAQ gaps_each(R10), R10
next:
	MOVQ gap_n(R10), CX
	MOVQ DI, AX
	MOVQ SI, DX
	LEAQ (DI)(CX*8), DI
	LEAQ (SI)(CX*8), SI
eight:
	CMPQ  AX, R12
	JGT   few
	CMPQ  DX, R13
	JGT   few
	MOVOU 0(DX), X0
	MOVOU 16(DX), X1
	MOVOU 32(DX), X2
	MOVOU 48(DX), X3
	MOVOU X0, 0(AX)
	MOVOU X1, 16(AX)
	MOVOU X2, 32(AX)
	MOVOU X3, 48(AX)
	ADDQ  $64, AX
	ADDQ  $64, DX
	SUBQ  $8, CX
	JGT   eight
put:
	CMPQ gap_put(R10), $0
	JEQ  out
	MOVQ (R11), BX
	MOVQ BX, (DI)
	ADDQ $8, DI
out:
	MOVQ gap_out(R10), BX
	LEAQ (SI)(BX*8), SI
	ADDQ $8, R11
	ADDQ $gap__size, R10
	DECQ R9
	JNZ  next
	RET
few:
	TESTQ CX, CX
	JLE  put
	MOVQ (DX), BX
	MOVQ BX, (AX)
	ADDQ $8, AX
	ADDQ $8, DX
	DECQ CX
	JMP  few
