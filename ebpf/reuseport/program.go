package reuseport

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// exit is one way out of the program. Each has a counter, and all but
// exitSelected to exitMoved leave the choice to the kernel: a client that
// comes to any worker is served, one that is dropped is not.
type exit int

const (
	exitSelected  exit = iota // to the worker of the policy's choice
	exitNotSYN                // least sessions: no new connection, to the worker of its hash
	exitMigrated              // from a closed listener to the same worker's new one
	exitMoved                 // from a closed listener to another worker
	exitNoSockets             // no generation has been set
	exitClosed                // the worker's socket is closed and no other one was set
	exitRefused               // the worker's socket is of another address or protocol
	exits
)

// Offsets in struct sk_reuseport_md of linux/bpf.h.
const (
	mdData      = 0  // the TCP or UDP header
	mdDataEnd   = 8  // what can be read ends here
	mdHash      = 32 // of addresses and ports, with a secret of this boot
	mdSocket    = 40 // the one that the lookup found
	mdMigrating = 48 // the connection that lost its listener, or null
)

const (
	skPass = 1

	tcpFlags    = 13 // offset in the header
	tcpDeciding = 0x17
	tcpSYN      = 0x02 // of FIN, SYN, RST and ACK, tcpDeciding
)

// Stack slots of the program.
const (
	fpKey    = -4  // u32
	fpCookie = -16 // u64
	fpCount  = -24 // u64: workers of this generation
)

// maps are what a program works with.
type maps struct {
	sockets  *ebpf.Map // slot -> socket
	state    *ebpf.Map
	counters *ebpf.Map // per CPU: [exits]u64
	sessions *ebpf.Map // [MaxWorkers]i64; least sessions only
	owners   *ebpf.Map // socket cookie -> worker; least sessions only
	observed *ebpf.Map // source port -> what the program saw; tests only
}

// load loads the program of a policy.
func load(p Policy, m *maps) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "weir_reuseport",
		Type:         ebpf.SkReuseport,
		AttachType:   ebpf.AttachSkReuseportSelectOrMigrate,
		Instructions: m.program(p),
		License:      "Apache-2.0",
	})
}

// program returns the instructions. Registers that keep their meaning all the
// way: R6 the context, R7 this CPU's counters, R8 the half in use, R9 the worker.
func (m *maps) program(p Policy) asm.Instructions {
	prog := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),

		asm.StoreImm(asm.RFP, fpKey, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, fpKey),
		asm.LoadMapPtr(asm.R1, m.counters.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"), // cannot be; the verifier wants it
		asm.Mov.Reg(asm.R7, asm.R0),

		// One load tells both the half in use and its workers, so that no
		// packet sees a mixture of two generations.
		asm.LoadMapValue(asm.R8, m.state.FD(), 0),
		asm.LoadMem(asm.R1, asm.R8, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "no sockets"),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.RSh.Imm(asm.R2, 1),
		asm.And.Imm(asm.R2, 2*MaxWorkers-1), // for the verifier
		asm.StoreMem(asm.RFP, fpCount, asm.R2, asm.DWord),
		asm.And.Imm(asm.R1, 1),
		asm.Mul.Imm(asm.R1, halfBytes),
		asm.Add.Imm(asm.R1, offHalves),
		asm.Add.Reg(asm.R8, asm.R1),
	}
	if m.observed != nil {
		prog = append(prog, m.observe()...)
	}
	switch p {
	case CPU:
		prog = append(prog, asm.FnGetSmpProcessorId.Call())
		prog = append(prog, workerOfR0()...)
		prog = append(prog, m.selectWorker()...)
	case LeastSessions:
		prog = append(prog, m.leastSessions()...)
	default:
		prog = append(prog, asm.LoadMem(asm.R0, asm.R6, mdHash, asm.Word))
		prog = append(prog, workerOfR0()...)
		prog = append(prog, m.selectWorker()...)
	}
	if p != LeastSessions {
		prog = append(prog,
			asm.LoadMem(asm.R1, asm.R6, mdMigrating, asm.DWord),
			asm.JNE.Imm(asm.R1, 0, "migrated"),
		)
		prog = append(prog, leave("", exitSelected)...)
		prog = append(prog, leave("migrated", exitMigrated)...)
	}
	prog = append(prog, leave("no sockets", exitNoSockets)...)
	prog = append(prog,
		asm.Mov.Reg(asm.R1, asm.R0).WithSymbol("not selected"),
		asm.JEq.Imm(asm.R1, -int32(unix.ENOENT), "closed"),
	)
	prog = append(prog, leave("", exitRefused)...)
	prog = append(prog, leave("closed", exitClosed)...)
	return append(prog,
		asm.Mov.Imm(asm.R0, skPass).WithSymbol("pass"),
		asm.Return(),
	)
}

// leastSessions chooses the worker with the fewest sessions for a new
// connection, and counts it there. It must not count any other packet: stray
// ones, and those that answer a SYN cookie, would never be subtracted again.
func (m *maps) leastSessions() asm.Instructions {
	prog := asm.Instructions{
		asm.LoadMem(asm.R1, asm.R6, mdMigrating, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "migrating"),
		asm.LoadMem(asm.R2, asm.R6, mdData, asm.DWord),
		asm.LoadMem(asm.R3, asm.R6, mdDataEnd, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.Add.Imm(asm.R1, tcpFlags+1),
		asm.JGT.Reg(asm.R1, asm.R3, "not SYN"),
		asm.LoadMem(asm.R1, asm.R2, tcpFlags, asm.Byte),
		asm.And.Imm(asm.R1, tcpDeciding),
		asm.JNE.Imm(asm.R1, tcpSYN, "not SYN"),

		asm.FnGetPrandomU32.Call().WithSymbol("least"),
	}
	prog = append(prog, m.fewest()...)
	prog = append(prog, m.selectWorker()...)
	prog = append(prog, m.addSessions(1)...)
	prog = append(prog,
		asm.LoadMem(asm.R1, asm.R6, mdMigrating, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "moved"),
	)
	prog = append(prog, leave("", exitSelected)...)
	prog = append(prog, leave("moved", exitMoved)...)

	prog = append(prog, asm.LoadMem(asm.R0, asm.R6, mdHash, asm.Word).WithSymbol("not SYN"))
	prog = append(prog, workerOfR0()...)
	prog = append(prog, m.selectWorker()...)
	prog = append(prog, leave("", exitNotSYN)...)

	// The listener of a connection was closed before accept. It is counted at
	// that listener's worker, and so stays there. If there is no such worker
	// any more, its session goes with it to the one with the fewest.
	prog = append(prog,
		asm.LoadMem(asm.R1, asm.R6, mdSocket, asm.DWord).WithSymbol("migrating"),
		asm.FnGetSocketCookie.Call(),
		asm.StoreMem(asm.RFP, fpCookie, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, fpCookie),
		asm.LoadMapPtr(asm.R1, m.owners.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "least"), // of another process, which counted it
		asm.LoadMem(asm.R9, asm.R0, 0, asm.Word),
		asm.And.Imm(asm.R9, MaxWorkers-1),
		asm.LoadMem(asm.R1, asm.RFP, fpCount, asm.DWord),
		asm.JGE.Reg(asm.R9, asm.R1, "worker gone"),
	)
	prog = append(prog, m.selectWorker()...)
	prog = append(prog, leave("", exitMigrated)...)
	gone := m.addSessions(-1)
	gone[0] = gone[0].WithSymbol("worker gone")
	prog = append(prog, gone...)
	return append(prog, asm.Ja.Label("least"))
}

// fewest finds the worker with the fewest sessions, in R9, with a random
// number in R0 to decide ties: all workers of an idle balancer have none. It is
// unrolled and takes minima without jumps, since in a loop the verifier follows
// too many paths, and with only CAP_BPF it allows no other arithmetic on
// pointers. For that it must also not know the outcome's bits, hence the mask.
func (m *maps) fewest() asm.Instructions {
	const tieBits = 8
	// R0 random, R3 counters, R4 the least of sessions<<16 | random<<8 |
	// worker^mask, R5 workers, R9 mask. Signed: a counter can be below zero for
	// a while.
	prog := asm.Instructions{
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.And.Imm(asm.R9, MaxWorkers-1),
		asm.LoadMapValue(asm.R3, m.sessions.FD(), 0),
		asm.LoadMem(asm.R5, asm.RFP, fpCount, asm.DWord),
		asm.LoadImm(asm.R4, 1<<62, asm.DWord),
	}
	for w := range int32(min(MaxWorkers, m.sockets.MaxEntries())) {
		if w > 0 {
			prog = append(prog, asm.JLE.Imm(asm.R5, w, "found"))
		}
		prog = append(prog,
			asm.LoadMem(asm.R2, asm.R3, int16(8*w), asm.DWord),
			asm.LSh.Imm(asm.R2, tieBits+workerBits),
			asm.Mul.Imm32(asm.R0, 1664525), // the next random number; its upper bits are good
			asm.Add.Imm32(asm.R0, 1013904223),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.RSh.Imm(asm.R1, 32-tieBits),
			asm.LSh.Imm(asm.R1, workerBits),
			asm.Or.Reg(asm.R2, asm.R1),
			asm.Or.Reg(asm.R2, asm.R9),
			asm.Xor.Imm(asm.R2, w),
			asm.Sub.Reg(asm.R2, asm.R4), // below zero if it is less
			asm.Mov.Reg(asm.R1, asm.R2),
			asm.ArSh.Imm(asm.R1, 63), // then all ones, else 0
			asm.And.Reg(asm.R2, asm.R1),
			asm.Add.Reg(asm.R4, asm.R2),
		)
	}
	return append(prog,
		asm.Xor.Reg(asm.R9, asm.R4).WithSymbol("found"),
		asm.And.Imm(asm.R9, MaxWorkers-1),
	)
}

// workerOfR0 looks up the worker in R9 of a hash or a CPU number in R0.
func workerOfR0() asm.Instructions {
	return asm.Instructions{
		asm.And.Imm(asm.R0, buckets-1),
		asm.Add.Reg(asm.R0, asm.R8),
		asm.LoadMem(asm.R9, asm.R0, offWorker, asm.Byte),
	}
}

// selectWorker selects the socket of the worker in R9, or goes to "not
// selected".
func (m *maps) selectWorker() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.LSh.Imm(asm.R1, 1),
		asm.Add.Reg(asm.R1, asm.R8),
		asm.LoadMem(asm.R1, asm.R1, offSlot, asm.Half),
		asm.StoreMem(asm.RFP, fpKey, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, m.sockets.FD()),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, fpKey),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnSkSelectReuseport.Call(),
		asm.JNE.Imm(asm.R0, 0, "not selected"),
	}
}

// addSessions adds to the sessions of the worker in R9.
func (m *maps) addSessions(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.LSh.Imm(asm.R1, 3),
		asm.LoadMapValue(asm.R2, m.sessions.FD(), 0),
		asm.Add.Reg(asm.R2, asm.R1),
		asm.Mov.Imm(asm.R1, n),
		asm.AddAtomic.Mem(asm.R2, asm.R1, asm.DWord, 0),
	}
}

// leave counts an exit and leaves the program.
func leave(label string, e exit) asm.Instructions {
	first := asm.Mov.Imm(asm.R1, 1)
	if label != "" {
		first = first.WithSymbol(label)
	}
	return asm.Instructions{
		first,
		asm.AddAtomic.Mem(asm.R7, asm.R1, asm.DWord, int16(8*e)),
		asm.Ja.Label("pass"),
	}
}

// observe notes what the program sees of a packet under its source port, for
// tests that compare its choices with a model's.
func (m *maps) observe() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R6, mdData, asm.DWord),
		asm.LoadMem(asm.R3, asm.R6, mdDataEnd, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.Add.Imm(asm.R1, 2),
		asm.JGT.Reg(asm.R1, asm.R3, "observed"),
		asm.LoadMem(asm.R1, asm.R2, 0, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.StoreMem(asm.RFP, fpKey, asm.R1, asm.Word),
		asm.FnGetSmpProcessorId.Call(),
		asm.LSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.R6, mdHash, asm.Word),
		asm.Or.Reg(asm.R1, asm.R0),
		asm.StoreMem(asm.RFP, fpCookie, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, m.observed.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, fpKey),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, fpCookie),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("observed"),
	}
}
