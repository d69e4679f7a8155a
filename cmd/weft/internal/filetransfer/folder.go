package filetransfer

import "github.com/weftrdma/weft/cmd/weft/internal/inbox"

// InboxFolder makes an inbox a Folder.
func InboxFolder(box *inbox.Inbox) Folder { return inboxFolder{box} }

type inboxFolder struct{ *inbox.Inbox }

func (f inboxFolder) Create(e inbox.Entry, have *inbox.Partial) (File, error) {
	file, err := f.Inbox.Create(e, have)
	if err != nil {
		return nil, err
	}
	return file, nil
}
