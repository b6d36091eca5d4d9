package loop

// Kind says what a token belongs to.
type Kind uint8

// The kinds of things that receive events.
const (
	kindMailbox   Kind = iota // the loop's own
	kindTimer                 // the loop's own
	KindListener              // slot = number of the listening socket in its worker
	KindSession               // slot and generation from a Slab
	KindDatagrams             // as KindListener, of UDP
	KindFlow                  // as KindSession, a UDP socket to a peer
	KindHedge                 // as KindSession, its second attempt to connect
)

// MaxSlots is how many slots of one kind a token can name.
const MaxSlots = 1 << 28

// Token is the 64 bits that epoll hands back with an event:
//
//	generation<<32 | kind<<29 | slot<<1 | side
//
// Side tells a session's two sockets apart.
type Token uint64

// MakeToken returns the token of those parts.
func MakeToken(kind Kind, generation uint32, slot int32, side uint8) Token {
	return Token(uint64(generation)<<32 | uint64(kind)<<29 | uint64(slot)<<1 | uint64(side))
}

// Kind returns the token's kind.
func (t Token) Kind() Kind { return Kind(t >> 29 & 7) }

// Generation returns the generation of the token's slot.
func (t Token) Generation() uint32 { return uint32(t >> 32) }

// Slot returns the token's slot.
func (t Token) Slot() int32 { return int32(t >> 1 & (MaxSlots - 1)) }

// Side returns the token's side, 0 or 1.
func (t Token) Side() uint8 { return uint8(t & 1) }
