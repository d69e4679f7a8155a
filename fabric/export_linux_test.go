package fabric

import "os"

// RemoveDeadSegment is one step of the clean-up of shm's files: lock is one that was opened to see whether somebody holds it.
func RemoveDeadSegment(lock *os.File) error { return (&segment{lock: lock}).removeDead() }
