package doctor

import (
	"io/fs"
	"path"
	"strings"
)

// module is what the kernel has of a module.
type module int

const (
	absent module = iota
	loadable
	loaded // or built in
)

// module looks for one by name.
func (e *examination) module(name string) module {
	if e.exists(path.Join("sys/module", name)) {
		return loaded
	}
	release, _ := fs.ReadFile(e.Files, "proc/sys/kernel/osrelease")
	dir := path.Join("lib/modules", strings.TrimSpace(string(release)))
	for file, found := range map[string]module{"modules.builtin": loaded, "modules.dep": loadable} {
		list, _ := fs.ReadFile(e.Files, path.Join(dir, file))
		for line := range strings.Lines(string(list)) {
			module, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			base, _, _ := strings.Cut(path.Base(module), ".ko") // and .xz or .zst
			if strings.ReplaceAll(base, "-", "_") == name {
				return found
			}
		}
	}
	return absent
}

func (e *examination) modules() {
	const check = "modules"
	switch e.module("ib_uverbs") {
	case loaded:
		e.ok(check, "ib_uverbs is loaded")
	case loadable:
		e.found(Broken, check, "modprobe ib_uverbs", "ib_uverbs, by which programs reach RDMA devices, is not loaded")
	case absent:
		e.found(Broken, check, "boot a kernel that has it (of Debian's, linux-image-amd64), or in a container look at the host",
			"there is no ib_uverbs for this kernel: programs cannot reach RDMA devices")
	}
}

// kernelDevices looks at the devices of the kernel.
func (e *examination) kernelDevices(names []string) {
	const check = "devices"
	if len(names) > 0 {
		e.ok(check, "the kernel has %s", strings.Join(names, ", "))
		return
	}
	const text = "the kernel has no RDMA device"
	const link = "rdma link add rxe0 type rxe netdev NAME, with the name of a network interface"
	switch e.module("rdma_rxe") {
	case loaded:
		e.found(Broken, check, "load the driver of the NIC, or make a soft-RoCE device: "+link, text)
	case loadable:
		e.found(Broken, check, "load the driver of the NIC, or make a soft-RoCE device: modprobe rdma_rxe, then "+link, text)
	case absent:
		e.found(Broken, check, "load the driver of the NIC; this kernel has no rdma_rxe for a soft-RoCE device (of Debian's, "+
			"linux-image-amd64 has it and the cloud flavour has not)", text)
	}
}
