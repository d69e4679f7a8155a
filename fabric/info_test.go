package fabric_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestInfosTellWhatProvidersOffer(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "shm", Caps: fabric.CapMsg | fabric.CapRMA})
	require.NoError(t, err)
	info := infos[0]
	require.Equal(t, "shm", info.Provider)
	require.Equal(t, "shm", info.Domain)
	require.Equal(t, fabric.RDM, info.Type)
	require.Equal(t, fabric.AddrString, info.AddrFormat)
	require.Equal(t, fabric.MRVirtAddr, info.MRMode)
	require.Equal(t, fabric.ThreadSafe, info.Threading)
	require.Equal(t, fabric.ProgressManual, info.DataProgress)
	require.Equal(t, fabric.CapRMA|fabric.CapMsg, info.Caps&(fabric.CapRMA|fabric.CapMsg|fabric.CapTagged))
	require.Equal(t, uint64(8), info.CQDataSize)
	require.Positive(t, info.Tx.InjectSize)
	require.Positive(t, info.Tx.Segments)
	require.NotNil(t, info.Raw())
	require.Contains(t, info.String(), "prov_name: shm")
	require.Contains(t, info.String(), "FI_EP_RDM")
	require.Contains(t, info.Summary(), "shm RDM domain shm fabric shm, FI_PROGRESS_MANUAL progress")
	require.NotContains(t, info.Summary(), "\n")
}

func TestInfosOfTCPAreOfThisMachine(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "tcp", Node: "127.0.0.1", Service: "17471"})
	require.NoError(t, err)
	require.Equal(t, "lo", infos[0].Domain)
	require.Equal(t, sockaddr("127.0.0.1", 17471), infos[0].SrcAddr)
	require.Empty(t, infos[0].DestAddr)
	infos, err = fabric.GetInfo(fabric.Hints{Provider: "tcp", Node: "127.0.0.1", Service: "17471", Remote: true})
	require.NoError(t, err)
	require.Equal(t, sockaddr("127.0.0.1", 17471), infos[0].DestAddr)
}

// TestHintsThatAreAskedForAreGranted or refused, and the info says what was granted.
func TestHintsThatAreAskedForAreGranted(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	get := func(change func(*fabric.Hints)) (*fabric.Info, error) {
		hints := hintsOf("tcp")
		change(&hints)
		infos, err := fabric.GetInfo(hints)
		if err != nil {
			return nil, err
		}
		return infos[0], nil
	}
	info, err := get(func(h *fabric.Hints) {
		h.TxSegments, h.RxSegments, h.RMASegments, h.ResourceMgmt = 2, 3, 1, fabric.ResourceMgmtEnabled
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, info.Tx.Segments, uint64(2))
	require.GreaterOrEqual(t, info.Rx.Segments, uint64(3))
	require.GreaterOrEqual(t, info.Tx.RMASegments, uint64(1))
	require.Equal(t, fabric.ResourceMgmtEnabled, info.ResourceMgmt)
	for name, change := range map[string]func(*fabric.Hints){
		"TxSegments":  func(h *fabric.Hints) { h.TxSegments = 1 << 20 },
		"RxSegments":  func(h *fabric.Hints) { h.RxSegments = 1 << 20 },
		"RMASegments": func(h *fabric.Hints) { h.RMASegments = 1 << 20 },
		"CompOrder":   func(h *fabric.Hints) { h.CompOrder = fabric.OrderStrict | fabric.OrderData },
	} {
		_, err := get(change)
		require.ErrorIs(t, err, fabric.ErrNoProvider, name)
	}
	for name, change := range map[string]func(*fabric.Hints){
		"TxSegments":   func(h *fabric.Hints) { h.TxSegments = -1 },
		"RMASegments":  func(h *fabric.Hints) { h.RMASegments = -1 },
		"ResourceMgmt": func(h *fabric.Hints) { h.ResourceMgmt = 3 },
	} {
		_, err := get(change)
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
	own, err := get(func(*fabric.Hints) {})
	require.NoError(t, err)
	_, err = get(func(h *fabric.Hints) { h.CompOrder = own.Tx.CompOrder })
	require.NoError(t, err, "what it has by itself")
}

func TestWhatNobodyOffersIsNamed(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	_, err := fabric.GetInfo(fabric.Hints{Provider: "nonesuch", Node: "127.0.0.1", Caps: fabric.CapRMA})
	require.ErrorIs(t, err, fabric.ErrNoProvider)
	require.ErrorIs(t, err, syscall.ENODATA)
	require.ErrorContains(t, err, "RDM endpoints, provider nonesuch, node 127.0.0.1, capabilities")
}

func TestVersionsAndVariablesAreTold(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	v, err := fabric.LibraryVersion()
	require.NoError(t, err)
	require.True(t, v.AtLeast(1, 17), v)
	require.False(t, v.AtLeast(v.Major, v.Minor+1))
	require.True(t, fabric.Version{Major: 2, Minor: 0}.AtLeast(1, 17))
	require.Equal(t, "1.17", fabric.Version{Major: 1, Minor: 17}.String())

	_, err = fabric.GetInfo(fabric.Hints{Provider: "shm"})
	require.NoError(t, err)
	params, err := fabric.Params()
	require.NoError(t, err)
	values := map[string]string{}
	for _, p := range params {
		require.NotEmpty(t, p.Name)
		values[p.Name] = p.Value
	}
	require.Equal(t, "disabled", values["FI_MR_CACHE_MONITOR"], "set before libfabric was first asked")
	require.Equal(t, "0", values["FI_MR_CACHE_MAX_COUNT"])
}

// playParams tells the value of a variable, as libfabric has it once it was asked for providers.
func playParams(args []string) int {
	_, err := fabric.GetInfo(fabric.Hints{Provider: "shm"})
	params, failed := fabric.Params()
	if err = errors.Join(err, failed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, p := range params {
		if p.Name == args[0] {
			fmt.Println(p.Value)
		}
	}
	return 0
}

// TestVariablesOfTheUserReachTheProvider: the GID of verbs' datagrams can be chosen by one alone, and what the package sets by itself is
// the user's too.
func TestVariablesOfTheUserReachTheProvider(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	variables := map[string]string{"FI_MR_CACHE_MAX_COUNT": "77"}
	if v, err := fabric.LibraryVersion(); err == nil && !v.AtLeast(2, 0) {
		variables["FI_VERBS_GID_IDX"] = "3" // libfabric 2.x has its provider verbs in a file of its own
	}
	for name, value := range variables {
		t.Setenv(name, value)
		c := rdmatest.StartChild(t, "params", name)
		line, err := c.ReadLine(patience)
		require.NoError(t, err)
		require.Equal(t, value, line)
		require.NoError(t, c.Wait(patience))
	}
}

func TestNamesOfBits(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for text, value := range map[string]interface{ String() string }{
		"FI_RMA":              fabric.CapRMA,
		"FI_CONTEXT2":         fabric.ModeContext2,
		"FI_MR_PROV_KEY":      fabric.MRProvKey,
		"FI_INJECT":           fabric.FlagInject,
		"FI_PROGRESS_AUTO":    fabric.ProgressAuto,
		"FI_THREAD_DOMAIN":    fabric.ThreadDomain,
		"FI_ORDER_WAW":        fabric.OrderWAW,
		"FI_SOCKADDR_IN":      fabric.AddrSockaddrIn,
		"MSG":                 fabric.Msg,
		"DGRAM":               fabric.Dgram,
		"RDM":                 fabric.RDM,
		"77":                  fabric.EndpointType(77),
		"connection request":  fabric.EventConnReq,
		"78":                  fabric.EventType(78),
		"FI_UINT128":          fabric.Uint128,
		"FI_MSWAP":            fabric.MaskedSwap,
		"fi_getinfo: invalid": nameOf{&fabric.Error{Op: "fi_getinfo", Err: syscall.EINVAL}},
	} {
		require.Contains(t, value.String(), text)
	}
}

type nameOf struct{ error }

func (n nameOf) String() string { return n.Error() }

func TestTrafficClasses(t *testing.T) {
	require.Equal(t, uint8(46), fabric.DSCPClass(46).DSCP())
	require.Zero(t, fabric.ClassBulkData.DSCP())
	rdmatest.Require(t, rdmatest.Fabric)
	hints := hintsOf("tcp")
	hints.Class = fabric.ClassLowLatency
	_, err := fabric.GetInfo(hints)
	require.NoError(t, err)
}

func TestAddressesAreLookedUpAndRemoved(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x, y := pair(t, provider, setting{})
		name, err := x.av.Lookup(0)
		require.NoError(t, err)
		require.True(t, bytes.HasSuffix(y.name, name), "shm of 2.1 leaves the scheme out")
		text, err := x.av.Text(name)
		require.NoError(t, err)
		require.NotEmpty(t, text)
		_, err = x.av.Lookup(99)
		require.ErrorIs(t, err, syscall.ENOENT)
		require.ErrorIs(t, x.av.Remove(0, 99), syscall.ENOENT)
		require.ErrorIs(t, x.av.Remove(0, 0), syscall.ENOENT, "it is there once")
		require.NoError(t, x.av.Remove())
		require.NoError(t, x.av.Remove(0))
		require.ErrorIs(t, x.av.Remove(0), syscall.ENOENT)
		b := x.buffer(8)
		_, err = x.ep.Send([]fabric.Op{{NumSeg: 1}}, b.all())
		require.ErrorContains(t, err, "address vector")
		peers, err := x.av.Insert(y.name, x.name)
		require.NoError(t, err)
		require.Len(t, peers, 2)
		require.NotEqual(t, peers[0], peers[1])
		peers, err = x.av.Insert()
		require.NoError(t, err)
		require.Empty(t, peers)
	})
}

func TestAddressThatIsRefusedIsToldApart(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "tcp", setting{})
	_, err := x.av.Insert(x.name[:4])
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "address 0: ")
	bad := append([]byte{255, 255}, x.name[2:]...) // no such family
	_, err = x.av.Insert(x.name, bad)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "address 1: ")
}

// TestAddressesHaveTheLengthOfTheirFamily: providers read as many bytes as that has, whatever they are given.
func TestAddressesHaveTheLengthOfTheirFamily(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric) // libfabric names the formats
	of := func(family uint16, size int) []byte {
		return append(binary.NativeEndian.AppendUint16(nil, family), make([]byte, size-2)...)
	}
	for _, c := range []struct {
		format  fabric.AddrFormat
		address []byte
		fits    bool
	}{
		{fabric.AddrSockaddr, of(syscall.AF_INET, 16), true}, {fabric.AddrSockaddr, of(syscall.AF_INET, 28), false},
		{fabric.AddrSockaddr, of(syscall.AF_INET, 2), false}, {fabric.AddrSockaddr, []byte{2}, false},
		{fabric.AddrSockaddr, of(10, 28), true}, {fabric.AddrSockaddr, of(27, 48), true}, {fabric.AddrSockaddr, of(99, 16), false},
		{fabric.AddrSockaddrIn, of(syscall.AF_INET, 16), true}, {fabric.AddrSockaddrIn, of(10, 16), false},
		{fabric.AddrSockaddrV6, of(10, 28), true}, {fabric.AddrEFA, make([]byte, 32), true}, {fabric.AddrEFA, make([]byte, 31), false},
		{fabric.AddrString, []byte("fi_shm://x"), true}, {fabric.AddrString, nil, false}, {fabric.AddrString, make([]byte, 257), false},
	} {
		err := fabric.CheckAddress(c.format, c.address)
		if c.fits {
			require.NoError(t, err, "%v %v", c.format, c.address)
		} else {
			require.ErrorIs(t, err, syscall.EINVAL, "%v %v", c.format, c.address)
		}
	}
}

// shm has room for 256 peers.
func TestAddressesThatDoNotFitAreToldApart(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	addresses := make([][]byte, 400)
	for i := range addresses {
		addresses[i] = fmt.Appendf(nil, "fi_shm://weft-none-%d:0:0", i)
	}
	peers, err := x.av.Insert(addresses...)
	var refused *fabric.InsertError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Errors, 400)
	require.Len(t, peers, 400)
	require.NoError(t, refused.Errors[0])
	require.Error(t, refused.Errors[399])
	for i, peer := range peers {
		require.Equal(t, refused.Errors[i] != nil, peer == fabric.AddrUnspec, i)
	}
	require.ErrorContains(t, err, "of 400 addresses refused: address ")
	t.Log(len(refused.Unwrap()), refused.Errors[399])
}

func TestPeersAreInsertedByNameOfTheirService(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range []string{"tcp", sockets} {
		x := open(t, provider, setting{hints: func(h *fabric.Hints) { h.Provider = provider }})
		peer, err := x.av.InsertService("127.0.0.1", "17471")
		require.NoError(t, err)
		address, err := x.av.Lookup(peer)
		require.NoError(t, err)
		require.Equal(t, sockaddr("127.0.0.1", 17471), address)
		_, err = x.av.InsertService("127.0.0.1", "no such service")
		require.Error(t, err)
		peers, err := x.av.InsertSymmetric("127.0.0.1", 1, "17481", 3)
		if provider == sockets { // it tells the first address alone
			require.ErrorIs(t, err, errors.ErrUnsupported)
			continue
		}
		require.NoError(t, err)
		address, err = x.av.Lookup(peers[2])
		require.NoError(t, err)
		require.Equal(t, sockaddr("127.0.0.1", 17483), address)
	}
}

// TestInsertionThatReportsLater: the peer can be called once the event was read, and not before.
func TestInsertionThatReportsLater(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	if v, err := fabric.LibraryVersion(); err != nil || v.AtLeast(2, 0) {
		require.NoError(t, err)
		return // it is gone from there
	}
	for _, provider := range []string{"tcp", sockets} {
		t.Run(provider, func(t *testing.T) {
			var eq *fabric.EQ
			a := open(t, provider, setting{hints: func(h *fabric.Hints) { h.Provider = provider }, av: func(x *side) fabric.AVConfig {
				eq = opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
				return fabric.AVConfig{EQ: eq}
			}})
			b := open(t, provider, setting{hints: func(h *fabric.Hints) { h.Provider = provider }})
			require.ErrorIs(t, eq.Close(), syscall.EBUSY)
			for _, err := range []error{
				second(a.av.Insert(b.name)), second(a.av.InsertService("127.0.0.1", "1")),
				second(a.av.InsertSymmetric("127.0.0.1", 1, "1", 1)), b.av.InsertLater(1, a.name), a.av.InsertLater(1, a.name[:3]),
			} {
				require.ErrorIs(t, err, syscall.EINVAL)
			}
			from, to := a.buffer(8), b.buffer(8)
			peers := map[uint64]fabric.Addr{}
			for context, name := range map[uint64][]byte{71: a.name, 72: b.name} {
				require.NoError(t, a.av.InsertLater(context, name))
			}
			_, err := a.ep.Write([]fabric.Op{to.at(fabric.Op{NumSeg: 1, Peer: 1}, 0)}, from.all())
			require.ErrorContains(t, err, "address vector")
			ctx := rdmatest.Context(t, patience)
			for len(peers) < 2 {
				require.NoError(t, ctx.Err())
				e, err := eq.Read()
				require.NoError(t, err)
				if e == nil {
					continue
				}
				require.Equal(t, fabric.EventAVComplete, e.Type)
				require.Same(t, a.av, e.AV)
				require.Equal(t, uint64(1), e.Data)
				peers[e.Context] = e.Peer
			}
			address, err := a.av.Lookup(peers[72])
			require.NoError(t, err)
			require.Equal(t, b.name, address)
			from.bytes[3] = 7
			b.meet(a.name)
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1, Peer: peers[72]}, 0)}, from.all(), b)
			a.complete(1, b)
			a.until(func() bool { return to.bytes[3] == 7 }, b)
			if provider != sockets { // which leaks it: its own 64 bytes
				require.NoError(t, a.av.InsertLater(73, b.name)) // an event that nobody reads
			}
		})
	}
}

// TestEventsOfAClosedAddressVector are not taken for those of the next one, which as a rule (but under ASan) is where it was.
func TestEventsOfAClosedAddressVector(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	if v, err := fabric.LibraryVersion(); err != nil || v.AtLeast(2, 0) {
		require.NoError(t, err)
		return // there are none
	}
	x := open(t, "tcp", setting{})
	eq := opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
	cfg := fabric.AVConfig{EQ: eq}
	for range 10 {
		one, err := x.domain.OpenAV(cfg)
		require.NoError(t, err)
		require.NoError(t, one.InsertLater(1, x.name))
		require.NoError(t, one.InsertLater(2, x.name))
		require.NoError(t, second(eq.Read()))
		require.NoError(t, one.Close())
		two, err := x.domain.OpenAV(cfg)
		require.NoError(t, err)
		require.NoError(t, two.InsertLater(3, x.name))
		var ended []*fabric.Event
		for e, err := eq.Read(); e != nil || err != nil; e, err = eq.Read() {
			require.NoError(t, err)
			ended = append(ended, e)
		}
		require.Len(t, ended, 2)
		require.Nil(t, ended[0].AV)
		require.Zero(t, ended[0].Context)
		require.Same(t, two, ended[1].AV)
		require.EqualValues(t, 3, ended[1].Context)
		require.NotEqual(t, fabric.AddrUnspec, ended[1].Peer)
		require.NoError(t, two.Close())
	}
}
