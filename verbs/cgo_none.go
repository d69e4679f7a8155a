//go:build !linux || !cgo || noverbs

package verbs

import (
	"fmt"
	"runtime"
	"unsafe"

	"errors"
)

// errNone is what every call gives where the binding is left out. No object can be made, so most of them are never made.
var errNone = fmt.Errorf("verbs is not part of this build (%s; it needs linux, cgo and no tag noverbs): %w",
	runtime.GOOS, errors.ErrUnsupported)

func cDevices() ([]DeviceInfo, error)                           { return nil, errNone }
func cOpenDevice(string) (unsafe.Pointer, error)                { return nil, errNone }
func cCloseDevice(unsafe.Pointer) error                         { return errNone }
func cQueryDevice(unsafe.Pointer) (deviceAttr, error)           { return deviceAttr{}, errNone }
func cQueryPort(unsafe.Pointer, uint8) (portAttr, error)        { return portAttr{}, errNone }
func cGIDTable(unsafe.Pointer, []gidEntry) (int, error)         { return 0, errNone }
func cAllocPD(unsafe.Pointer) (unsafe.Pointer, error)           { return nil, errNone }
func cDeallocPD(unsafe.Pointer) error                           { return errNone }
func cDeregMR(unsafe.Pointer) error                             { return errNone }
func cCreateAH(unsafe.Pointer, *ahAttr) (unsafe.Pointer, error) { return nil, errNone }
func cDestroyAH(unsafe.Pointer) error                           { return errNone }
func cDestroyCQ(unsafe.Pointer) error                           { return errNone }
func cRawCQ(unsafe.Pointer) unsafe.Pointer                      { return nil }
func cArmCQ(unsafe.Pointer) error                               { return errNone }
func cCQEvents(unsafe.Pointer) int                              { return 0 }
func cPollCQ(unsafe.Pointer, []WC, uint32) int                  { return 0 }
func cDestroyQP(unsafe.Pointer) error                           { return errNone }
func cRawQP(unsafe.Pointer) unsafe.Pointer                      { return nil }
func cModifyQP(unsafe.Pointer, *qpAttr) error                   { return errNone }
func cQPState(unsafe.Pointer) (QPState, error)                  { return 0, errNone }
func cSetMaxMessage(unsafe.Pointer, uint32)                     {}
func cPostSend(unsafe.Pointer, []SendWR, []SGE) (int, int)      { return 0, 0 }
func cPostRecv(unsafe.Pointer, []RecvWR, []SGE) (int, int)      { return 0, 0 }
func dupCloseOnExec(int) (int, error)                           { return 0, errNone }

func cRegMR(unsafe.Pointer, uint64, uint64, uint32) (mr unsafe.Pointer, lkey, rkey uint32, err error) {
	return nil, 0, 0, errNone
}

func cCreateCQ(unsafe.Pointer, int, bool) (cq unsafe.Pointer, granted, fd int, err error) {
	return nil, 0, 0, errNone
}

func cCreateQP(_, _, _ unsafe.Pointer, _ *qpLimits) (unsafe.Pointer, uint32, error) {
	return nil, 0, errNone
}
