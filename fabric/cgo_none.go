//go:build !linux || !cgo || nofabric

package fabric

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// errNone is what every call gives where the binding is left out. No object can be made, so most of them are never made.
var errNone = fmt.Errorf("fabric is not part of this build (%s; it needs linux, cgo and no tag nofabric): %w",
	runtime.GOOS, errors.ErrUnsupported)

func load() error { return errNone }

func cOpenEndpoint(unsafe.Pointer, *Info, string) (unsafe.Pointer, error) { return nil, errNone }
func cCloseEndpoint(unsafe.Pointer) error                                 { return errNone }
func cRawEndpoint(unsafe.Pointer) unsafe.Pointer                          { return nil }
func cBindAV(unsafe.Pointer, unsafe.Pointer) error                        { return errNone }
func cBindEQ(unsafe.Pointer, unsafe.Pointer) error                        { return errNone }
func cBindCQ(unsafe.Pointer, unsafe.Pointer, uint64) error                { return errNone }
func cBindCounter(unsafe.Pointer, unsafe.Pointer, uint64) error           { return errNone }
func cEnable(unsafe.Pointer) error                                        { return errNone }
func cCancel(unsafe.Pointer, uint64) error                                { return errNone }
func cAlias(unsafe.Pointer, uint64) (unsafe.Pointer, error)               { return nil, errNone }
func cCrossings(unsafe.Pointer) uint64                                    { return 0 }
func cSetOption(unsafe.Pointer, int, []byte) error                        { return errNone }
func cGetOption(unsafe.Pointer, int, int) ([]byte, error)                 { return nil, errNone }
func cName(unsafe.Pointer) ([]byte, error)                                { return nil, errNone }
func cSetName(unsafe.Pointer, []byte) error                               { return errNone }
func cPeer(unsafe.Pointer) ([]byte, error)                                { return nil, errNone }
func cConnect(unsafe.Pointer, []byte, []byte) error                       { return errNone }
func cAccept(unsafe.Pointer, []byte) error                                { return errNone }
func cShutdown(unsafe.Pointer) error                                      { return errNone }
func cOpenListener(unsafe.Pointer, *Info) (unsafe.Pointer, error)         { return nil, errNone }
func cCloseListener(unsafe.Pointer) error                                 { return errNone }
func cBindListener(unsafe.Pointer, unsafe.Pointer) error                  { return errNone }
func cListen(unsafe.Pointer) error                                        { return errNone }
func cReject(unsafe.Pointer, *Info, []byte) error                         { return errNone }
func cJoin(unsafe.Pointer, []byte) (unsafe.Pointer, error)                { return nil, errNone }
func cGroupAddr(unsafe.Pointer) Addr                                      { return AddrUnspec }
func cRawGroup(unsafe.Pointer) unsafe.Pointer                             { return nil }
func cLeave(unsafe.Pointer) error                                         { return errNone }
func cOpenScalable(unsafe.Pointer, *Info) (unsafe.Pointer, error)         { return nil, errNone }
func cBindScalableAV(unsafe.Pointer, unsafe.Pointer) error                { return errNone }
func cOpenContext(unsafe.Pointer, bool, int) (unsafe.Pointer, error)      { return nil, errNone }
func cOpenSharedTx(unsafe.Pointer, *Info) (unsafe.Pointer, error)         { return nil, errNone }
func cCloseSharedTx(unsafe.Pointer) error                                 { return errNone }
func cOpenSharedRx(unsafe.Pointer, *Info) (unsafe.Pointer, error)         { return nil, errNone }
func cBindSharedTx(unsafe.Pointer, unsafe.Pointer) error                  { return errNone }
func cBindSharedRx(unsafe.Pointer, unsafe.Pointer) error                  { return errNone }
func cObject(uint64) unsafe.Pointer                                       { return nil }
func cVersion() (uint32, error)                                           { return 0, errNone }
func cHeaders() uint32                                                    { return 0 }
func cErrorText(errno int) string {
	return fmt.Sprintf("libfabric error %d", errno)
}
func cGetInfo(string, string, uint64, *rawInfo) ([]unsafe.Pointer, error)              { return nil, errNone }
func cFreeInfo(unsafe.Pointer)                                                         {}
func cReadInfo(unsafe.Pointer) *rawInfo                                                { return nil }
func cInfoText(unsafe.Pointer) string                                                  { return "" }
func cText(_ uint32, value uint64) string                                              { return fmt.Sprintf("%#x", value) }
func cParams() ([]Param, error)                                                        { return nil, errNone }
func cOpenFabric(*Info) (unsafe.Pointer, error)                                        { return nil, errNone }
func cCloseFabric(unsafe.Pointer) error                                                { return errNone }
func cOpenDomain(unsafe.Pointer, *Info) (unsafe.Pointer, error)                        { return nil, errNone }
func cCloseDomain(unsafe.Pointer) error                                                { return errNone }
func cRawDomain(unsafe.Pointer) unsafe.Pointer                                         { return nil }
func cBindDomain(unsafe.Pointer, unsafe.Pointer) error                                 { return errNone }
func cOpenOps(unsafe.Pointer, string) (unsafe.Pointer, error)                          { return nil, errNone }
func cSetOps(unsafe.Pointer, string, unsafe.Pointer) error                             { return errNone }
func cControl(unsafe.Pointer, int, unsafe.Pointer) error                               { return errNone }
func cGetVal(unsafe.Pointer, int, unsafe.Pointer) error                                { return errNone }
func cSetVal(unsafe.Pointer, int, unsafe.Pointer) error                                { return errNone }
func cInsertLater(unsafe.Pointer, []byte, uint64) error                                { return errNone }
func cInserted(unsafe.Pointer, uint64, bool) (uint64, Addr, error)                     { return 0, AddrUnspec, errNone }
func cOpenAV(unsafe.Pointer, int, int, unsafe.Pointer) (unsafe.Pointer, error)         { return nil, errNone }
func cCloseAV(unsafe.Pointer) error                                                    { return errNone }
func cRawAV(unsafe.Pointer) unsafe.Pointer                                             { return nil }
func cInsertAV(unsafe.Pointer, []byte, []uint32, []Addr, []uint32)                     {}
func cInsertService(unsafe.Pointer, string, string) (Addr, error)                      { return AddrUnspec, errNone }
func cInsertSymmetric(unsafe.Pointer, string, int, string, int, []Addr) error          { return errNone }
func cRemoveAV(unsafe.Pointer, []Addr) error                                           { return errNone }
func cLookupAV(unsafe.Pointer, Addr) ([]byte, error)                                   { return nil, errNone }
func cAddressText(unsafe.Pointer, []byte) string                                       { return "" }
func cRegMR(unsafe.Pointer, *mrAttr, *MR) error                                        { return errNone }
func cRegMRV(unsafe.Pointer, []Seg, *mrAttr, *MR) error                                { return errNone }
func cCloseMR(unsafe.Pointer) error                                                    { return errNone }
func cRawMR(unsafe.Pointer) unsafe.Pointer                                             { return nil }
func cMRKey(unsafe.Pointer) uint64                                                     { return 0 }
func cRawKey(unsafe.Pointer) (uint64, []byte, error)                                   { return 0, nil, errNone }
func cMapKey(unsafe.Pointer, uint64, []byte) (uint64, error)                           { return 0, errNone }
func cUnmapKey(unsafe.Pointer, uint64) error                                           { return errNone }
func cBindMREndpoint(unsafe.Pointer, unsafe.Pointer) error                             { return errNone }
func cBindMRCounter(unsafe.Pointer, unsafe.Pointer, uint64) error                      { return errNone }
func cEnableMR(unsafe.Pointer) error                                                   { return errNone }
func cRefreshMR(unsafe.Pointer, uint64, uint64) error                                  { return errNone }
func cOpenCounter(unsafe.Pointer, WaitObject) (unsafe.Pointer, error)                  { return nil, errNone }
func cCloseCounter(unsafe.Pointer) error                                               { return errNone }
func cReadCounter(unsafe.Pointer) uint64                                               { return 0 }
func cReadCounterErrors(unsafe.Pointer) uint64                                         { return 0 }
func cAddCounter(unsafe.Pointer, uint64) error                                         { return errNone }
func cAddCounterErrors(unsafe.Pointer, uint64) error                                   { return errNone }
func cSetCounter(unsafe.Pointer, uint64) error                                         { return errNone }
func cSetCounterErrors(unsafe.Pointer, uint64) error                                   { return errNone }
func cWaitCounter(unsafe.Pointer, uint64, time.Duration) error                         { return errNone }
func cOpenEQ(unsafe.Pointer, EQConfig) (unsafe.Pointer, int, error)                    { return nil, 0, errNone }
func cCloseEQ(unsafe.Pointer) error                                                    { return errNone }
func cRawEQ(unsafe.Pointer) unsafe.Pointer                                             { return nil }
func cTryWaitEQ(unsafe.Pointer) bool                                                   { return false }
func cReadEQ(unsafe.Pointer, *rawEvent) error                                          { return errNone }
func cWaitEQ(unsafe.Pointer, *rawEvent, time.Duration) error                           { return errNone }
func cWriteEQ(unsafe.Pointer, uint32, uint64, uint64) error                            { return errNone }
func cOpenCQ(unsafe.Pointer, CQConfig) (unsafe.Pointer, int, error)                    { return nil, 0, errNone }
func cCloseCQ(unsafe.Pointer) error                                                    { return errNone }
func cRawCQ(unsafe.Pointer) unsafe.Pointer                                             { return nil }
func cSignalCQ(unsafe.Pointer) error                                                   { return errNone }
func cTryWaitCQ(unsafe.Pointer) bool                                                   { return false }
func cLookCQ(unsafe.Pointer) int                                                       { return 0 }
func cFailure(unsafe.Pointer, uint32, *failure) bool                                   { return false }
func cPollCQ(unsafe.Pointer, []Completion, uint32) int                                 { return 0 }
func cPollCQWhile(unsafe.Pointer, []Completion, uint32, *atomic.Uint64, uint64) int    { return 0 }
func cWaitCQ(unsafe.Pointer, []Completion, time.Duration) int                          { return 0 }
func cPost(unsafe.Pointer, OpKind, []Op, []Seg) (int, int)                             { return 0, 0 }
func cInject(unsafe.Pointer, OpKind, *Op, []byte) int                                  { return 0 }
func cPostPoll(unsafe.Pointer, OpKind, []Op, []Seg, []Completion, uint32, *postPolled) {}
func cPostAtomics(unsafe.Pointer, atomicKind, []AtomicOp, []Seg) (int, int)            { return 0, 0 }
func cAtomicValid(unsafe.Pointer, atomicKind, Datatype, AtomicOperator) (int, error) {
	return 0, errNone
}
func cQueryAtomic(unsafe.Pointer, Datatype, AtomicOperator) (int, int, error) { return 0, 0, errNone }
func cCreateTemplate(int) (unsafe.Pointer, error)                             { return nil, errNone }
func cFreeTemplate(unsafe.Pointer)                                            {}
func cAddPrepared(unsafe.Pointer, unsafe.Pointer, OpKind, *Op, uint32) int    { return 0 }
func cPostTemplate(unsafe.Pointer, []Patch) (int, int)                        { return 0, 0 }
func cTemplateCrossings(unsafe.Pointer) uint64                                { return 0 }
