package inventory

import (
	"errors"
	"slices"
	"strings"

	"github.com/weftrdma/weft/fabric"
)

// Provider is one of libfabric's that can be a rail: it has reliable datagrams, and remote writes with data.
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
		at := slices.IndexFunc(all, func(p Provider) bool { return p.Name == i.Provider })
		if i.CQDataSize < 4 {
			continue // no room for an immediate
		}
		if at < 0 {
			at, all = len(all), append(all, Provider{Name: i.Provider})
		}
		if !slices.Contains(all[at].Domains, i.Domain) {
			all[at].Domains = append(all[at].Domains, i.Domain)
		}
	}
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Fabric describes libfabric, which [Providers] has just opened, or failed to open with the error.
func Fabric(err error) Library {
	return found("libfabric", err, fabric.ErrNoLibrary)
}
