package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/stats"
)

const (
	// pipeBytes is the size wanted for a pipe. Measured on loopback, one
	// stream: 64 KiB cost twice the CPU per byte of 1 MiB, 256 KiB 1.3 times.
	pipeBytes = 1 << 20
	// spliceBytes is the most that one read moves. The window that the kernel grants
	// grows with what is read at a time (tcp_rcv_space_adjust): at 1 MiB to 12 MiB,
	// of pages that are cold when somebody writes them again. With this bound one
	// stream of iperf 2 ran at 1.2 to 1.3 times the rate, iperf3 and eight streams
	// at 0.97 to 1.05. 512 KiB cost eight streams 1.06 to 1.15 times the CPU, 256 KiB
	// one stream as much; 768 KiB gained half. The pipe is larger because a page of
	// it often holds one packet.
	spliceBytes = 640 << 10
	// minPipeBytes is the least size a pipe is worth having at.
	minPipeBytes = 64 << 10
)

// pipe is a kernel pipe for splicing. It is lent to a flow only while bytes
// are inside, and comes back empty or not at all.
type pipe struct {
	r, w int32
	size int32 // bytes
}

// pipePool keeps a worker's empty pipes, the hottest last.
type pipePool struct {
	demand
	free  []*pipe
	open  int // lent and free
	max   int // how many may be open
	want  int // size to ask for; lowered when the kernel refuses
	stats *stats.Worker
}

// get lends an empty pipe, or returns nil if there is none to be had; then
// bytes are copied.
func (pp *pipePool) get() *pipe {
	if n := len(pp.free); n > 0 {
		p := pp.free[n-1]
		pp.free = pp.free[:n-1]
		pp.lend()
		return p
	}
	if pp.open >= pp.max {
		pp.stats.SpliceFallbacks.Add(1)
		return nil
	}
	r, w, errno := sys.Pipe()
	if errno != 0 {
		pp.stats.SpliceFallbacks.Add(1)
		return nil
	}
	p := &pipe{r: r, w: w, size: minPipeBytes}
	for pp.want > minPipeBytes {
		// Over fs.pipe-user-pages-soft only a smaller size is granted.
		size, errno := sys.SetPipeSize(w, pp.want)
		if errno == 0 {
			p.size = int32(size)
			break
		}
		pp.stats.SpliceFallbacks.Add(1)
		if errno != unix.EPERM && errno != unix.ENOMEM {
			break
		}
		pp.want /= 4
	}
	pp.open++
	pp.lend()
	pp.stats.Pipes.Add(1)
	return p
}

// adopt takes in a pipe of another process, lent already.
func (pp *pipePool) adopt(r, w, size int32) *pipe {
	pp.open++
	pp.lend()
	pp.stats.Pipes.Add(1)
	return &pipe{r: r, w: w, size: size}
}

// put takes back an empty pipe.
func (pp *pipePool) put(p *pipe) {
	pp.back()
	pp.free = append(pp.free, p)
}

// discard closes a lent pipe that still has bytes inside: they must never meet
// another session.
func (pp *pipePool) discard(p *pipe) {
	pp.back()
	pp.close(p)
}

func (pp *pipePool) close(p *pipe) {
	sys.Close(p.r)
	sys.Close(p.w)
	pp.open--
	pp.stats.Pipes.Add(-1)
}

// trim closes free pipes beyond that many.
func (pp *pipePool) trim(keep int) {
	for len(pp.free) > keep {
		p := pp.free[len(pp.free)-1]
		pp.free = pp.free[:len(pp.free)-1]
		pp.close(p)
	}
}
