package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// maxKeyFile is the largest key file in bytes.
const maxKeyFile = 4096

// checkKeyFile refuses an empty value of --key-file, such as that of a variable of the shell that is not set: whoever gives the flag
// wants a key.
func checkKeyFile(cmd *cobra.Command, _ []string) error {
	if f := cmd.Flags().Lookup("key-file"); f.Changed && f.Value.String() == "" {
		return &usageError{errors.New("--key-file is empty: name the file with the key, or leave the flag out")}
	}
	return nil
}

// readKey reads the value of --key-file: nil if that is empty. White space around the key does not count, so that a line break
// at its end makes no other key.
func (a *app) readKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w", err)
	}
	key := bytes.TrimSpace(text)
	switch {
	case len(text) > maxKeyFile:
		return nil, fmt.Errorf("--key-file %s: more than %d bytes are no key", path, maxKeyFile)
	case len(key) < wire.MinKey:
		return nil, fmt.Errorf("--key-file %s: its key has %d bytes, at least %d are needed: make one by "+
			"\"openssl rand -base64 32 > %[1]s\"", path, len(key), wire.MinKey)
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(a.stderr, "weft: warning: other users of this machine can read the key: chmod 600 %s\n", path)
	}
	return key, nil
}
