package verbs

// CrashInPoll makes the shim's poll read through a null pointer.
func CrashInPoll() { cPollCQ(nil, make([]WC, 1), 0) }

// What the pure functions of bring-up compute.
var (
	TimeoutCode  = timeoutCode
	RNRTimerCode = rnrTimerCode
)
