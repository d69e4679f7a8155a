package filetransfer

// Report is what one transfer, of one sender to one receiver, came to.
type Report struct {
	Peer         string       `json:"peer"`          // the other end's TCP address
	Total        Total        `json:"total"`         // of all files
	Files        []FileReport `json:"files"`         // in their order; a receiver lists so many and no more
	Seconds      float64      `json:"seconds"`       // from the first file to the last answer
	ControlBytes int64        `json:"control_bytes"` // over TCP, both ways
	RDMABytes    uint64       `json:"rdma_bytes"`    // by RDMA writes

	failed int // among Files
	names  int // bytes of the names in Files
}

// Total is what a transfer came to in numbers.
type Total struct {
	Files  int    `json:"files"`  // folders among them
	Failed int    `json:"failed"` // of these not in place
	Bytes  uint64 `json:"bytes"`  // of those in place
}

// FileReport is what became of one file or folder.
type FileReport struct {
	Name   string `json:"name"`   // as it was sent: see wire.Printable
	Folder bool   `json:"folder"` // it is one
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"` // of a file that is in place
	Error  string `json:"error"`  // empty: it is in place

	// CutOff is set where the transfer ended before that was known; Error then says so.
	CutOff bool `json:"-"`

	done bool // that is known; a sender's, until the transfer has ended
}

// A receiver lists so many files of a sender that are in place, and that are not, with so many bytes of names: senders choose how
// many there are, and how they are called.
const (
	maxListed       = 100_000
	maxListedFailed = 1000
	maxListedNames  = 16 << 20
)

// add counts a file, and lists it unless there are too many.
func (r *Report) add(f FileReport) {
	r.count(f)
	switch {
	case r.names+len(f.Name) > maxListedNames:
		return
	case f.Error == "" && len(r.Files)-r.failed < maxListed:
	case f.Error != "" && r.failed < maxListedFailed:
		r.failed++
	default:
		return
	}
	r.names += len(f.Name)
	r.Files = append(r.Files, f)
}

func (r *Report) count(f FileReport) {
	r.Total.Files++
	if f.Error != "" {
		r.Total.Failed++
	} else {
		r.Total.Bytes += f.Bytes
	}
}

// begin lists a sender's files.
func (r *Report) begin(peer string, files []Source) {
	r.Peer, r.Files = peer, make([]FileReport, len(files))
	for i, f := range files {
		r.Files[i] = FileReport{Name: f.Name, Folder: f.isFolder(), Bytes: f.Size}
	}
}

// end counts a sender's files. Those that nothing is known of did not arrive, since the transfer ended with the error.
func (r *Report) end(err error) {
	for i := range r.Files {
		f := &r.Files[i]
		if !f.done && err != nil {
			f.Error, f.CutOff = "not sent to the end: "+err.Error(), true
		}
		if f.Error != "" {
			f.SHA256 = ""
		}
		f.done = false // which was for this alone
		r.count(*f)
	}
}
