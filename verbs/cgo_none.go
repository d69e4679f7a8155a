//go:build !linux || !cgo || noverbs

package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// errNone is what every call gives where the binding is left out. No object can be made, so most of them are never made.
var errNone = fmt.Errorf("verbs is not part of this build (%s; it needs linux, cgo and no tag noverbs): %w",
	runtime.GOOS, errors.ErrUnsupported)

// cMR is a new memory region.
type cMR struct {
	ptr        unsafe.Pointer
	lkey, rkey uint32
}

func cDevices() ([]DeviceInfo, error)                                        { return nil, errNone }
func cOpenDevice(string) (unsafe.Pointer, error)                             { return nil, errNone }
func cImportDevice(int) (unsafe.Pointer, error)                              { return nil, errNone }
func cCloseDevice(unsafe.Pointer) error                                      { return errNone }
func cQueryDevice(unsafe.Pointer) (deviceAttr, error)                        { return deviceAttr{}, errNone }
func cContextName(unsafe.Pointer) string                                     { return "" }
func cContextFD(unsafe.Pointer) int                                          { return 0 }
func cContextVectors(unsafe.Pointer) int                                     { return 0 }
func cQueryExtended(unsafe.Pointer) (extendedAttr, error)                    { return extendedAttr{}, errNone }
func cDeviceClock(unsafe.Pointer) (uint64, error)                            { return 0, errNone }
func cAsyncFD(unsafe.Pointer) (int, error)                                   { return 0, errNone }
func cAsyncEvent(unsafe.Pointer, *asyncEvent) error                          { return errNone }
func cAckAsyncEvent(unsafe.Pointer, *asyncEvent)                             {}
func cForkInit() error                                                       { return errNone }
func cForkStatus() (int, error)                                              { return 0, errNone }
func cQueryPKey(unsafe.Pointer, uint8, int) (uint16, error)                  { return 0, errNone }
func cPKeyIndex(unsafe.Pointer, uint8, uint16) (int, error)                  { return 0, errNone }
func cQueryPort(unsafe.Pointer, uint8) (portAttr, error)                     { return portAttr{}, errNone }
func cGIDTable(unsafe.Pointer, []gidEntry) (int, error)                      { return 0, errNone }
func cAllocPD(unsafe.Pointer) (unsafe.Pointer, error)                        { return nil, errNone }
func cImportPD(unsafe.Pointer, uint32) (unsafe.Pointer, error)               { return nil, errNone }
func cUnimportPD(unsafe.Pointer)                                             {}
func cPDHandle(unsafe.Pointer) uint32                                        { return 0 }
func cPDContext(unsafe.Pointer) unsafe.Pointer                               { return nil }
func cDeallocPD(unsafe.Pointer) error                                        { return errNone }
func cRegMR(unsafe.Pointer, uint64, uint64, uint32) (cMR, error)             { return cMR{}, errNone }
func cRegMRIOVA(unsafe.Pointer, uint64, uint64, uint64, uint32) (cMR, error) { return cMR{}, errNone }
func cRegDMABuf(unsafe.Pointer, int, uint64, uint64, uint64, uint32) (cMR, error) {
	return cMR{}, errNone
}
func cAllocNullMR(unsafe.Pointer) (cMR, error)      { return cMR{}, errNone }
func cImportMR(unsafe.Pointer, uint32) (cMR, error) { return cMR{}, errNone }
func cUnimportMR(unsafe.Pointer)                    {}
func cMRHandle(unsafe.Pointer) uint32               { return 0 }
func cReregMR(unsafe.Pointer, uint32, unsafe.Pointer, uint64, uint64, uint32) (cMR, int, error) {
	return cMR{}, 0, errNone
}
func cAdviseMR(unsafe.Pointer, uint32, uint32, []SGE) error            { return errNone }
func cAllocMW(unsafe.Pointer, uint32) (unsafe.Pointer, uint32, error)  { return nil, 0, errNone }
func cDeallocMW(unsafe.Pointer) error                                  { return errNone }
func cDeregMR(unsafe.Pointer) error                                    { return errNone }
func cCreateAH(unsafe.Pointer, *ahAttr) (unsafe.Pointer, AHRef, error) { return nil, 0, errNone }
func cDestroyAH(unsafe.Pointer, AHRef) error                           { return errNone }
func cAHFromWC(unsafe.Pointer, uint8, *WC, []byte) (ahAttr, error)     { return ahAttr{}, errNone }
func cCreateChannel(unsafe.Pointer) (unsafe.Pointer, int, error)       { return nil, 0, errNone }
func cDestroyChannel(unsafe.Pointer) error                             { return errNone }
func cChannelEvents(unsafe.Pointer, []uint64) int                      { return 0 }
func cCreateCQ(unsafe.Pointer, unsafe.Pointer, int, int, bool) (unsafe.Pointer, int, int, error) {
	return nil, 0, 0, errNone
}
func cResizeCQ(unsafe.Pointer, int) (int, error)                            { return 0, errNone }
func cModerateCQ(unsafe.Pointer, uint16, uint16) error                      { return errNone }
func cDestroyCQ(unsafe.Pointer) (queue, channel error)                      { return errNone, nil }
func cRawCQ(unsafe.Pointer) unsafe.Pointer                                  { return nil }
func cArmCQ(unsafe.Pointer, bool) error                                     { return errNone }
func cCQEvents(unsafe.Pointer) int                                          { return 0 }
func cPollCQ(unsafe.Pointer, []WC, uint32) int                              { return 0 }
func cPollCQWhile(unsafe.Pointer, []WC, uint32, *atomic.Uint64, uint64) int { return 0 }
func cCreateQP(unsafe.Pointer, unsafe.Pointer, unsafe.Pointer, unsafe.Pointer, *qpLimits) (unsafe.Pointer, uint32, error) {
	return nil, 0, errNone
}
func cDestroyQP(unsafe.Pointer) error                                               { return errNone }
func cRawQP(unsafe.Pointer) unsafe.Pointer                                          { return nil }
func cModifyQP(unsafe.Pointer, *qpAttr) error                                       { return errNone }
func cReleaseQP(unsafe.Pointer)                                                     {}
func cQPNum(unsafe.Pointer) uint32                                                  { return 0 }
func cQueryQP(unsafe.Pointer, uint32) (qpAttr, error)                               { return qpAttr{}, errNone }
func cRateLimit(unsafe.Pointer, uint32, uint32, uint16) error                       { return errNone }
func cDataInOrder(unsafe.Pointer, Opcode) bool                                      { return false }
func cMulticast(unsafe.Pointer, *GID, uint16, bool) error                           { return errNone }
func cQPFailure(unsafe.Pointer, *failure) bool                                      { return false }
func cFailQP(unsafe.Pointer, EventType)                                             {}
func cQPCrossings(unsafe.Pointer) uint64                                            { return 0 }
func cSetMaxMessage(unsafe.Pointer, uint32)                                         {}
func cPostSend(unsafe.Pointer, []SendWR, []SGE, *post)                              {}
func cPostInline(unsafe.Pointer, *SendWR, []byte, *post)                            {}
func cPostRecv(unsafe.Pointer, []RecvWR, []SGE, *post)                              {}
func cPostMark(unsafe.Pointer, bool, uint64, AHRef) int                             { return 0 }
func cBindMW(unsafe.Pointer, unsafe.Pointer, unsafe.Pointer, *mwBind) (uint32, int) { return 0, 0 }
func cCreateSRQ(unsafe.Pointer, *srqAttr) (unsafe.Pointer, error)                   { return nil, errNone }
func cDestroySRQ(unsafe.Pointer) error                                              { return errNone }
func cRawSRQ(unsafe.Pointer) unsafe.Pointer                                         { return nil }
func cModifySRQ(unsafe.Pointer, *srqAttr, uint32) error                             { return errNone }
func cQuerySRQ(unsafe.Pointer) (srqAttr, error)                                     { return srqAttr{}, errNone }
func cPostSRQRecv(unsafe.Pointer, []RecvWR, []SGE, *post)                           {}
func cCreateTemplate(int) (unsafe.Pointer, error)                                   { return nil, errNone }
func cDestroyTemplate(unsafe.Pointer)                                               {}
func cAddPrepared(unsafe.Pointer, unsafe.Pointer, *SendWR, uint32) int              { return 0 }
func cPostTemplate(unsafe.Pointer, []Patch, *post)                                  {}
func cTemplateCrossings(unsafe.Pointer) uint64                                      { return 0 }
func dupCloseOnExec(int) (int, error)                                               { return 0, errNone }
func cQueryGID(unsafe.Pointer, uint32, uint32) (gidEntry, error)                    { return gidEntry{}, errNone }
func cResolve(unsafe.Pointer, *ahAttr, *[6]byte) (uint16, error)                    { return 0, errNone }
func cAllocTD(unsafe.Pointer) (unsafe.Pointer, error)                               { return nil, errNone }
func cDeallocTD(unsafe.Pointer) error                                               { return errNone }
func cAllocParent(_, _ unsafe.Pointer) (unsafe.Pointer, error)                      { return nil, errNone }
func cLibraryPath() string                                                          { return "" }
func load() error                                                                   { return errNone }
func cFreeQP(unsafe.Pointer)                                                        {}
func cFreeTemplate(unsafe.Pointer)                                                  {}
func cCreateCQEx(unsafe.Pointer, unsafe.Pointer, unsafe.Pointer, *CQConfig) (unsafe.Pointer, int, int, error) {
	return nil, 0, 0, errNone
}
func cPollCQTimes(unsafe.Pointer, []WC, []WCTime) int { return 0 }
func cWrapCQ(unsafe.Pointer, unsafe.Pointer, bool) (unsafe.Pointer, int, CQTimestamps, error) {
	return nil, 0, 0, errNone
}
func cReleaseCQ(unsafe.Pointer) {}
func cWrapQP(_, _, _, _ unsafe.Pointer, _ *qpLimits) (unsafe.Pointer, QPState, error) {
	return nil, 0, errNone
}
func cQueuesOfQP(unsafe.Pointer) (send, recv, srq uint64) { return 0, 0, 0 }
func cWrapSRQ(unsafe.Pointer, unsafe.Pointer) (unsafe.Pointer, srqAttr, error) {
	return nil, srqAttr{}, errNone
}
func cReleaseSRQ(unsafe.Pointer) {}
func cWrapMR(unsafe.Pointer, unsafe.Pointer) (cMR, uint64, uint64, error) {
	return cMR{}, 0, 0, errNone
}
