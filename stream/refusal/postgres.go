package refusal

import (
	"encoding/binary"
	"strings"
)

// The codes of what a client may begin with, in the place of the protocol's
// version, and the size of a whole request for encryption (PostgreSQL manual,
// "Message Formats").
const (
	cancelRequest = 1234<<16 | 5678
	sslRequest    = 1234<<16 | 5679
	gssRequest    = 1234<<16 | 5680

	requestSize = 8
)

// maxStartup is the greatest message that PostgreSQL takes for one to start with
// (MAX_STARTUP_PACKET_LENGTH). The first bytes of TLS, as of any text, are a
// greater length.
const maxStartup = 10000

// noEncryption is the answer to a request for it.
var noEncryption = []byte{'N'}

// postgresError returns an ErrorResponse (PostgreSQL manual, "Error and Notice
// Message Fields").
func postgresError(text string) []byte {
	fields := strings.Join([]string{"SFATAL", "VFATAL", "C53300", "M" + text, "\x00"}, "\x00")
	b := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields)))
	return append(b, fields...)
}

// nextPostgres answers as soon as it is seen what a message is: the rest of a
// StartupMessage does not matter.
func (w *Words) nextPostgres(input []byte) (used int, reply []byte, done bool) {
	if len(input) < requestSize {
		return 0, nil, false
	}
	size, code := binary.BigEndian.Uint32(input), binary.BigEndian.Uint32(input[4:])
	switch {
	case size < requestSize || size > maxStartup || code == cancelRequest:
		return len(input), nil, true
	case size == requestSize && (code == sslRequest || code == gssRequest):
		return requestSize, noEncryption, false
	}
	return len(input), w.reply, true
}
