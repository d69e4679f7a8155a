package inventory

import (
	"errors"
	"slices"
	"strings"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/fabricrail"
)

// Provider is one of libfabric's that can be a rail, as fabric:PROVIDER names it.
type Provider struct {
	Name    string   `json:"name"`
	Domains []string `json:"domains"`
}

// Providers lists them. Errors are those of [fabric.GetInfo], but for having none.
func Providers() ([]Provider, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Caps: fabric.CapMsg | fabric.CapRMA})
	if errors.Is(err, fabric.ErrNoProvider) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Provider
	for _, i := range infos {
		name, _, _ := strings.Cut(i.Provider, ";") // tcp of 1.17 is "tcp;ofi_rxm"
		if fabricrail.CheckProvider(name) != nil {
			continue
		}
		at := slices.IndexFunc(all, func(p Provider) bool { return p.Name == name })
		if at < 0 {
			at, all = len(all), append(all, Provider{Name: name})
		}
		if !slices.Contains(all[at].Domains, i.Domain) {
			all[at].Domains = append(all[at].Domains, i.Domain)
		}
	}
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Fabric describes libfabric, which [Providers] has just opened, or failed to open with the error.
// What its file is named by is the version of its interface, and not its own.
func Fabric(err error) Library {
	l, _ := found("libfabric", err, fabric.ErrNoLibrary)
	if version, err := fabric.LibraryVersion(); err == nil {
		l.Version = version.String()
	}
	return l
}
