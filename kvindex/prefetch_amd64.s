#include "textflag.h"

// func prefetchScan(keys *uint64, values any, distance, line uint64)
TEXT ·prefetchScan(SB), NOSPLIT, $0-40
	MOVQ line+32(FP), CX
	MOVQ distance+24(FP), AX
	MULQ CX
	MOVQ keys+0(FP), R8
	MOVQ values_data+16(FP), R9
	MOVBQSX CX, CX
	ADDQ CX, DX
	PREFETCHT0 -24(R8)(DX*8)
	PREFETCHT0 40(R8)(DX*8)
	PREFETCHT0 104(R8)(DX*8)
	PREFETCHT0 -24(R9)(DX*8)
	PREFETCHT0 40(R9)(DX*8)
	PREFETCHT0 104(R9)(DX*8)
	RET

// func prefetchBuffer(buffer any)
TEXT ·prefetchBuffer(SB), NOSPLIT, $0-16
	MOVQ buffer_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	RET

// func prefetchLeaf(leaf any)
TEXT ·prefetchLeaf(SB), NOSPLIT, $0-16
	MOVQ leaf_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET

// func search18(keys *[18]uint64, k uint64, value any) int
TEXT ·search18(SB), NOSPLIT, $0-40
	MOVQ keys+0(FP), AX
	MOVQ k+8(FP), BX
	MOVQ value_data+24(FP), R8
	XORL CX, CX
	XORL DX, DX
	PREFETCHT0 24(R8)
	CMPQ BX, 48(AX)
	SETCC CL
	CMPQ BX, 96(AX)
	SETCC DL
	ADDL DX, CX
	LEAQ (CX)(CX*2), CX
	SHLQ $4, CX
	ADDQ CX, AX
	XORL DX, DX
	XORL SI, SI
	CMPQ BX, 16(AX)
	SETCC DL
	CMPQ BX, 32(AX)
	SETCC SI
	ADDL SI, DX
	SHLL $4, DX
	XORL SI, SI
	CMPQ BX, 8(AX)(DX*1)
	SETCC SI
	ADDQ DX, CX
	SHRQ $3, CX
	ADDQ SI, CX
	MOVQ CX, ret+32(FP)
	RET

// func prefetchWritten(leaf any)
TEXT ·prefetchWritten(SB), NOSPLIT, $0-16
	MOVQ leaf_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	PREFETCHT0 256(AX)
	PREFETCHT0 320(AX)
	RET

// func prefetchArrays(keys *uint64, values any, n int)
TEXT ·prefetchArrays(SB), NOSPLIT, $0-32
	MOVQ keys+0(FP), AX
	MOVQ values_data+16(FP), BX
	MOVQ n+24(FP), CX
lines:
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	ADDQ $64, AX
	ADDQ $64, BX
	SUBQ $8, CX
	JGT lines
	RET

// func prefetchAhead(keys *uint64, values any, distance, line uint64)
TEXT ·prefetchAhead(SB), NOSPLIT, $0-40
	MOVQ line+32(FP), CX
	MOVQ distance+24(FP), AX
	MULQ CX
	MOVQ keys+0(FP), R8
	MOVQ values_data+16(FP), R9
	MOVBQSX CX, CX
	ADDQ CX, DX
	PREFETCHT0 -24(R8)(DX*8)
	PREFETCHT0 24(R8)(DX*8)
	PREFETCHT0 (R9)(DX*8)
	RET

// func prefetchSlots(slot any)
TEXT ·prefetchSlots(SB), NOSPLIT, $0-16
	MOVQ slot_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
