package inventory

var (
	FindLibrary = findLibrary
	NewPort     = newPort
)
