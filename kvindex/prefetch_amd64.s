#include "textflag.h"

// func prefetchWindow(keys *uint64, value any)
TEXT ·prefetchWindow(SB), NOSPLIT, $0-24
	MOVQ keys+0(FP), AX
	MOVQ value_data+16(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 (BX)
	PREFETCHT0 64(BX)
	RET

// func prefetchBuffer(buffer any)
TEXT ·prefetchBuffer(SB), NOSPLIT, $0-16
	MOVQ buffer_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	PREFETCHT0 192(AX)
	PREFETCHT0 256(AX)
	RET

// func prefetchLeaf(leaf any)
TEXT ·prefetchLeaf(SB), NOSPLIT, $0-16
	MOVQ leaf_data+8(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
