package reuseport

import (
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// buckets is how many parts the hash space has, a power of two. A worker's
// share is exact to one bucket.
const buckets = 4096

// state is the memory that a group shares with its program, in the one entry
// of an array map. The halves take turns: one is in use, the other is written
// for the next generation. Program and Go both go by this declaration.
type state struct {
	generation uint64 // workers<<1 | half in use; 0 = none yet
	halves     [2]half
}

// half says where a generation's packets go.
type half struct {
	worker [buckets]uint8     // of a bucket of the hash space, or of a CPU
	slot   [MaxWorkers]uint16 // of a worker's socket in the socket array
}

const (
	stateBytes   = int(unsafe.Sizeof(state{}))
	halfBytes    = int32(unsafe.Sizeof(half{}))
	offHalves    = int32(unsafe.Offsetof(state{}.halves))
	offWorker    = int16(unsafe.Offsetof(half{}.worker))
	offSlot      = int16(unsafe.Offsetof(half{}.slot))
	sessionBytes = int(unsafe.Sizeof([MaxWorkers]int64{}))
)

// set switches to the other half.
func (s *state) set(workers int) {
	atomic.StoreUint64(&s.generation, uint64(workers)<<1|uint64(s.next()))
}

// next returns the index of the half that is not in use.
func (s *state) next() int {
	return int(1 - atomic.LoadUint64(&s.generation)&1)
}

// newShared returns an array map of one entry and its memory.
func newShared(name string, bytes int) (*ebpf.Map, []byte, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name:       name,
		Type:       ebpf.Array,
		KeySize:    4,
		ValueSize:  uint32(bytes),
		MaxEntries: 1,
		Flags:      unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return nil, nil, err
	}
	mem, err := unix.Mmap(m.FD(), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, mem, nil
}

func asState(mem []byte) *state { return (*state)(unsafe.Pointer(&mem[:stateBytes][0])) }

func asSessions(mem []byte) *[MaxWorkers]int64 {
	return (*[MaxWorkers]int64)(unsafe.Pointer(&mem[:sessionBytes][0]))
}
