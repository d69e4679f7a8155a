package railtest

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Suite says how to test a kind of rail.
type Suite struct {
	// Network makes a network for one clause.
	Network func(t testing.TB) Network
	// Virtual has rails live under a clock that moves to what is due next whenever nothing is left to do.
	Virtual bool
	// Kills is how many peers are killed with operations in flight, and Connects how often two rails connect and disconnect
	// before they are looked at for what they leaked; 0 is 10 and 100.
	Kills, Connects int
	// Stop is how long the receiver of many immediates takes no turns, and Compute how long a target does not call the
	// engine; 0 is 2 and 3 seconds.
	Stop, Compute time.Duration
	// Patience bounds every wait; 0 is a minute. Where time is real, it is scaled by rdmatest.Deadline.
	Patience time.Duration
	// Without says of clauses, by their names, why the rail does not pass them. They are not tried.
	Without map[string]string
}

// Network is where rails reach one another.
type Network struct {
	// Seed is what the network decides by, if it decides anything by chance: the clause draws by the same one, so that it
	// replays both. 0 has the clause draw one.
	Seed uint64
	// Opener makes the opener of one more rail.
	Opener func() rail.Opener
	// Kill ends the process of the rail at an address, for rails that do not leave this process, and Again, if not nil, makes
	// the opener of a rail that takes the address of one that was killed. Otherwise Child is the name under which the test
	// main has [Peer], with the arguments for it.
	Kill      func(address []byte)
	Again     func(address []byte) rail.Opener
	Child     string
	ChildArgs []string
}

func (s Suite) withDefaults() Suite {
	orDefault(&s.Kills, 10)
	orDefault(&s.Connects, 100)
	orDefault(&s.Stop, 2*time.Second)
	orDefault(&s.Compute, 3*time.Second)
	orDefault(&s.Patience, time.Minute)
	return s
}

// limit returns d as a limit of the suite's time: scaled by how slow the machine is, unless the clock is virtual.
func (s *Suite) limit(d time.Duration) time.Duration {
	if s.Virtual {
		return d
	}
	return rdmatest.Deadline(d)
}

// patience bounds every wait.
func (s *Suite) patience() time.Duration { return s.limit(s.Patience) }

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// clause is one thing that a rail has to do.
type clause struct {
	name  string
	check func(w *world)
}

// clauses are all of them.
func clauses() []clause {
	return []clause{
		{"describes itself", describesItself},
		{"connects", connects},
		{"connects from both sides at once", connectsFromBothSides},
		{"a peer that is expected", expectedPeer},
		{"several peers", severalPeers},
		{"loops back to itself", loopsBack},
		{"nobody answers", nobodyAnswers},
		{"writes of all sizes", writesOfAllSizes},
		{"writes without bytes", writesWithoutBytes},
		{"large writes", largeWrites},
		{"immediates count once", immediatesCountOnce},
		{"immediates come after their bytes", immediatesAfterBytes},
		{"order that is promised", promisedOrder},
		{"what is delivered is in place", delivered},
		{"many operations in flight", manyInFlight},
		{"a peer that takes no turns", fullQueues},
		{"a receiver that is stopped", stoppedReceiver},
		{"events that do not fit", eventsThatDoNotFit},
		{"arming and waiting", armingAndWaiting},
		{"looking without a turn", lookingWithoutATurn},
		{"reads", reads},
		{"atomic operations", atomics},
		{"messages", messages},
		{"messages come after what was acknowledged", messagesAfterImmediates},
		{"operations that cannot be posted", badPosts},
		{"wrong keys", wrongKeys},
		{"out of bounds", outOfBounds},
		{"no right to it", noRight},
		{"memory that was taken back", deregistered},
		{"memory of other goroutines", registeredBeside},
		{"disconnecting", disconnecting},
		{"disconnecting with operations in flight", disconnectingInFlight},
		{"proof that nothing lands", proof},
		{"nothing lands at who is done with a peer", landsNoMore},
		{"what is acknowledged arrives before a peer is down", acknowledgedArrive},
		{"a silent peer is given up", silentPeer},
		{"closing", closing},
		{"closing beside a silent peer", closedBesideSilence},
		{"memory that is closed in the midst", closedInTheMidst},
		{"a peer is killed", killedInFlight},
		{"a peer is killed while both wait", killedWhileWaiting},
		{"a peer is killed while another one sends", killedUnderLoad},
		{"a peer is started again at its address", startedAgain},
		{"nothing leaks", nothingLeaks},
		{"a target that computes", targetThatComputes},
		{"a receiver whose sender dies", receiverIsTold},
	}
}

// Run tries every clause as a subtest.
func Run(t *testing.T, s Suite) {
	s = s.withDefaults()
	left := maps.Clone(s.Without)
	for _, c := range clauses() {
		if why, without := left[c.name]; without {
			t.Logf("railtest: without %q: %s", c.name, why)
			delete(left, c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.check(newWorld(t, &s)) })
	}
	require.Empty(t, left, "there are no such clauses")
}
