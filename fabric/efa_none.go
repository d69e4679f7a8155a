//go:build !efa

package fabric

// orDefaultProvider leaves the choice to libfabric where no provider is named.
func orDefaultProvider(named string) string { return named }

// preferred keeps libfabric's order.
func preferred(infos []*Info) []*Info { return infos }
