package inbox

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// maxElement is the longest element of a name in bytes (NAME_MAX of Linux), and maxDepth the most elements.
	maxElement = 255
	maxDepth   = 128
)

// split checks a name that came from elsewhere and returns its elements. Only what can be told from the name itself is
// decided here; what stands on disk under it is not. A backslash is a character like others.
func split(name string) ([]string, error) {
	switch {
	case name == "":
		return nil, errors.New("it is empty")
	case strings.HasPrefix(name, "/"):
		return nil, errors.New("it is absolute")
	case strings.ContainsRune(name, 0):
		return nil, errors.New("it has a NUL character")
	}
	elements := strings.Split(name, "/")
	if len(elements) > maxDepth {
		return nil, fmt.Errorf("it has %d elements, more than %d", len(elements), maxDepth)
	}
	for _, e := range elements {
		switch {
		case e == "" || e == "." || e == "..":
			return nil, fmt.Errorf("it has the element %q", e)
		case strings.HasPrefix(e, reserved):
			return nil, fmt.Errorf("it has the element %q, and names that begin with %s are the receiver's own", e, reserved)
		case len(e) > maxElement:
			return nil, fmt.Errorf("it has an element of %d bytes, more than %d", len(e), maxElement)
		}
	}
	return elements, nil
}
