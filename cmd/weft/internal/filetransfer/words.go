package filetransfer

import (
	"errors"
	"net"
	"os"

	"github.com/weftrdma/weft/transferengine"
)

// inWords takes off an error what only a programmer can read: which counter of the engine lacks what, which of its operations
// failed, and addresses that are named beside it.
func inWords(err error) error {
	for {
		var missing *transferengine.MissingError
		var transfer *transferengine.TransferError
		var network *net.OpError
		var call *os.SyscallError
		switch {
		case errors.As(err, &missing):
			err = missing.Cause
		case errors.As(err, &transfer):
			err = transfer.Cause
		case errors.As(err, &network):
			err = network.Err
		case errors.As(err, &call):
			err = call.Err
		default:
			return err
		}
	}
}
