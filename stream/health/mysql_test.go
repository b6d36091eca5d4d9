package health

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlb/weir/conf"
)

// A fakeTable is the answer to a query: its columns, and rows with nil for NULL.
// One without columns is a syntax error.
type fakeTable struct {
	columns []string
	rows    [][]any
	repeat  int    // each row is sent so often more
	raw     string // the whole answer instead, in one packet
}

func pairs(list ...any) fakeTable {
	t := fakeTable{columns: []string{"Variable_name", "Value"}}
	for i := 0; i < len(list); i += 2 {
		t.rows = append(t.rows, list[i:i+2])
	}
	return t
}

// fakeMySQL lets anybody in (protocol version 10, mysql_native_password) and
// answers queries by what they begin with.
func fakeMySQL(answers map[string]fakeTable) func(net.Conn) {
	return func(c net.Conn) {
		serial := byte(0)
		write := func(payload []byte) {
			head := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
			head[3] = serial
			serial++
			c.Write(append(head, payload...))
		}
		read := func() []byte {
			var head [4]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return nil
			}
			serial = head[3] + 1
			body := make([]byte, int(head[0])|int(head[1])<<8)
			if _, err := io.ReadFull(c, body); err != nil {
				return nil
			}
			return body
		}
		text := func(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) } // under 251 bytes
		ok := []byte{0, 0, 0, 2, 0, 0, 0}
		end := []byte{0xfe, 0, 0, 2, 0}

		const capabilities = 0x0008a281 // protocol 4.1, secure connection, plugin auth
		hello := append([]byte{10}, "8.0.36\x00"...)
		hello = append(hello, 1, 0, 0, 0)
		hello = append(hello, "12345678\x00"...)
		hello = binary.LittleEndian.AppendUint16(hello, capabilities&0xffff)
		hello = append(hello, 45, 2, 0)
		hello = binary.LittleEndian.AppendUint16(hello, capabilities>>16)
		hello = append(hello, 21)
		hello = append(hello, make([]byte, 10)...)
		hello = append(hello, "123456789012\x00mysql_native_password\x00"...)
		write(hello)
		if read() == nil {
			return
		}
		write(ok)
		for {
			q := read()
			if len(q) == 0 || q[0] != 3 { // COM_QUERY
				return
			}
			var t fakeTable
			for begin, answer := range answers {
				if strings.HasPrefix(string(q[1:]), begin) {
					t = answer
				}
			}
			if t.raw != "" {
				write([]byte(t.raw))
				continue
			}
			if t.columns == nil {
				write(append([]byte{0xff, 0x28, 0x04}, "#42000You have an error in your SQL syntax"...)) // 1064
				continue
			}
			write([]byte{byte(len(t.columns))})
			for _, name := range t.columns {
				var b []byte
				for _, s := range []string{"def", "", "", "", name, name} {
					b = text(b, s)
				}
				write(append(b, 12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0)) // VAR_STRING
			}
			write(end)
			for _, row := range t.rows {
				var b []byte
				for _, v := range row {
					if v == nil {
						b = append(b, 0xfb)
					} else {
						b = text(b, fmt.Sprint(v))
					}
				}
				for range 1 + t.repeat {
					write(b)
				}
			}
			write(end)
		}
	}
}

func TestMySQL(t *testing.T) {
	const vars, status = "SHOW GLOBAL VARIABLES", "SHOW GLOBAL STATUS"
	source := func(seconds ...any) fakeTable {
		t := fakeTable{columns: []string{"Channel_Name", "Seconds_Behind_Source"}}
		for _, s := range seconds {
			t.rows = append(t.rows, []any{"x", s})
		}
		return t
	}
	master := fakeTable{columns: []string{"Seconds_Behind_Master"}, rows: [][]any{{7}}}
	replica := func(h *conf.HealthCheck) { h.Role, h.MaxLag = conf.Replica, time.Second }
	galera := func(h *conf.HealthCheck) { h.Galera = true }
	readOnly := pairs("read_only", "ON")
	for _, test := range []struct {
		name    string
		answers map[string]fakeTable
		edit    func(*conf.HealthCheck)
		role    conf.Role
		lag     time.Duration
		note    string
		cause   string
	}{
		{"primary", map[string]fakeTable{vars: pairs("read_only", "OFF")}, nil, conf.Primary, -1, "read_only is OFF", ""},
		{"replica", map[string]fakeTable{vars: readOnly}, nil, conf.Replica, -1, "read_only is ON", ""},
		{"super", map[string]fakeTable{vars: pairs("read_only", "ON", "super_read_only", "ON")}, nil, conf.Replica, -1, "super_read_only is ON", ""},
		{"MariaDB 12", map[string]fakeTable{vars: pairs("read_only", "NO_LOCK")}, nil, conf.Replica, -1, "read_only is NO_LOCK", ""},
		{"late, MySQL 8", map[string]fakeTable{vars: readOnly, "SHOW REPLICA STATUS": source(0, 3)}, replica, conf.Replica, 3 * time.Second, "read_only is ON", ""},
		{"late, MySQL 5", map[string]fakeTable{vars: readOnly, "SHOW SLAVE STATUS": master}, replica, conf.Replica, 7 * time.Second, "read_only is ON", ""},
		{"late, MariaDB", map[string]fakeTable{vars: readOnly, "SHOW ALL REPLICAS STATUS": master, "SHOW REPLICA STATUS": source(nil)}, replica, conf.Replica, 7 * time.Second, "read_only is ON", ""},
		{"one of two is broken", map[string]fakeTable{vars: readOnly, "SHOW REPLICA STATUS": source(0, nil)}, replica, conf.Replica, -1, "read_only is ON", ""},
		{"follows nobody", map[string]fakeTable{vars: readOnly, "SHOW REPLICA STATUS": source()}, replica, conf.Replica, -1, "read_only is ON", ""},
		{"not asked of a primary", map[string]fakeTable{vars: pairs("read_only", "OFF")}, replica, conf.Primary, -1, "read_only is OFF", ""},
		{"no status", map[string]fakeTable{vars: readOnly}, replica, 0, 0, "", "SHOW SLAVE STATUS: Error 1064 (42000): You have an error in your SQL syntax"},
		{"galera", map[string]fakeTable{vars: pairs("read_only", "OFF"), status: pairs("wsrep_ready", "ON", "wsrep_local_state", "4")}, galera, conf.Primary, -1, "read_only is OFF", ""},
		{"donor", map[string]fakeTable{status: pairs("wsrep_ready", "ON", "wsrep_local_state", "2", "wsrep_local_state_comment", "Donor/Desynced")}, galera, 0, 0, "", "wsrep_local_state is 2 (Donor/Desynced)"},
		{"not ready", map[string]fakeTable{status: pairs("wsrep_ready", "OFF", "wsrep_local_state", "4")}, galera, 0, 0, "", "wsrep_ready is OFF"},
		{"no galera", map[string]fakeTable{status: pairs()}, galera, 0, 0, "", "it has no wsrep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProber(t, serve(t, fakeMySQL(test.answers)), conf.CheckMySQL, func(h *conf.HealthCheck) {
				asWeir(h)
				if test.edit != nil {
					test.edit(h)
				}
			})
			if test.cause != "" {
				p.wantFailure(test.cause)
				return
			}
			for range 2 {
				if r := p.wantOK(test.note); r.role != test.role || r.lag != test.lag {
					t.Errorf("read %v and lag %v, want %v and %v", r.role, r.lag, test.role, test.lag)
				}
			}
		})
	}
	newProber(t, serve(t, fakeMySQL(nil)), conf.CheckMySQL, nil).wantOK("") // it lets nobody in, too
}

// Greetings that the driver would panic on, the first of MySQL's X protocol.
func TestMySQLGreetings(t *testing.T) {
	for hello, want := range map[string]string{
		"\x05\x00\x00\x00\x0b\x08\x05\x1a\x00": `the server greets with "\x05\x00\x00\x00\v\b\x05\x1a\x00", which is not MySQL's protocol`,
		"\x03\x00\x00\x00\xff\x10\x04":         `the server greets with "\x03\x00\x00\x00\xff\x10\x04", which is not MySQL's protocol`,
		"\x04\x00\x00\x00\xff\x10\x04#":        `the server greets with "\x04\x00\x00\x00\xff\x10\x04#", which is not MySQL's protocol`,
		"\x06\x00\x00\x00\x0a5.5\x00\x01":      `the server greets with "\x06\x00\x00\x00\n5.5\x00\x01", which is not MySQL's protocol`,
		"\x00\x00\x00\x00":                     `the server greets with "\x00\x00\x00\x00", which is not MySQL's protocol`,
		"SSH-2.0-OpenSSH\r\n":                  `the server greets with "SSH-2.0-OpenSSH\r\n", which is not MySQL's protocol`,
		"\x0b\x00\x00\x00\xff\x10\x04Too many": `logging in: Error 1040: Too many`,
	} {
		target := serve(t, func(c net.Conn) {
			io.WriteString(c, hello)
			silent(c)
		})
		newProber(t, target, conf.CheckMySQL, nil).wantFailure(want)
		newProber(t, target, conf.CheckMySQL, asWeir).wantFailure(want)
	}
}

// An answer that the driver panics on is a failure, and leaves nothing behind.
func TestMySQLPanic(t *testing.T) {
	short := fakeTable{raw: "\xff\x10\x04"}
	p := newProber(t, serve(t, fakeMySQL(map[string]fakeTable{"SHOW": short})), conf.CheckMySQL, asWeir)
	for range 2 {
		p.wantFailure("a panic at what the server says: runtime error: index out of range [3] with length 3")
	}
}

// No more is read than a check may: not of rows, nor of what is announced.
func TestMySQLSendsTooMuch(t *testing.T) {
	many := pairs("read_only", strings.Repeat("x", 200))
	many.repeat = 50_000 // 10 MB
	for what, answer := range map[string]fakeTable{"rows": many, "packet": {raw: strings.Repeat("\x01", 1<<20)}, "columns": {raw: "\xfe\x00\x00\x00\x00\x40\x00\x00\x00"}} {
		t.Run(what, func(t *testing.T) {
			p := newProber(t, serve(t, fakeMySQL(map[string]fakeTable{"SHOW": answer})), conf.CheckMySQL, asWeir)
			p.wantFailure("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only'): the server sends more than 256 KiB")
		})
	}
	// What one check has read is not counted in the next.
	p := newProber(t, serve(t, fakeMySQL(map[string]fakeTable{"SHOW": pairs("read_only", "OFF")})), conf.CheckMySQL, asWeir)
	for range 5000 {
		p.wantOK("read_only is OFF")
	}
}

// A heardConn keeps what is read from it.
type heardConn struct {
	net.Conn
	heard []byte
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard = append(c.heard, b[:n]...)
	return n, err
}

// A check that fails by what the server says leaves with COM_QUIT, like one that
// ends: the server would count it as aborted.
func TestMySQLQuits(t *testing.T) {
	donor := pairs("wsrep_ready", "ON", "wsrep_local_state", "2", "wsrep_local_state_comment", "Donor/Desynced")
	ends := make(chan []byte, 10)
	serveMySQL := fakeMySQL(map[string]fakeTable{"SHOW GLOBAL STATUS": donor})
	target := serve(t, func(c net.Conn) {
		heard := &heardConn{Conn: c}
		serveMySQL(heard)
		ends <- heard.heard
	})
	p := newProber(t, target, conf.CheckMySQL, func(h *conf.HealthCheck) { asWeir(h); h.Galera = true })
	for range 3 {
		p.wantFailure("wsrep_local_state is 2 (Donor/Desynced)")
		if heard := <-ends; !bytes.HasSuffix(heard, []byte("\x01\x00\x00\x00\x01")) {
			t.Errorf("the last that the server heard is %q, want COM_QUIT", heard[max(0, len(heard)-40):])
		}
	}
}

// A realMariaDB is a server that lets the users root (on its unix socket) and
// weir (with "hunter2") in.
type realMariaDB struct {
	Target
	dir string
	log *output
}

func startMariaDB(t *testing.T, settings ...string) *realMariaDB {
	t.Helper()
	return startMariaDBBy(t, openDir(t), nil, settings...)
}

// startMariaDBBy has the server started by another program.
func startMariaDBBy(t *testing.T, dir string, by []string, settings ...string) *realMariaDB {
	t.Helper()
	user := []string{}
	if os.Geteuid() == 0 {
		user = []string{"--user=root"}
	}
	init := exec.Command(need(t, "mariadb-install-db", "mariadb-server"), append([]string{"--no-defaults", "--datadir=" + dir + "/data", "--auth-root-authentication-method=normal", "--skip-test-db"}, user...)...)
	run(t, init)
	port := freePort(t)
	m := &realMariaDB{Target: loopback(port), dir: dir}
	args := append([]string{"--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/s", "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M", "--log-warnings=9"}, settings...)
	args = append(append(append(by, need(t, "mariadbd", "mariadb-server")), args...), user...)
	m.log, _ = startProgram(t, exec.Command(args[0], args[1:]...))
	eventually(t, 30*time.Second, "MariaDB answers", func() bool {
		return exec.Command(need(t, "mariadb", "mariadb-client"), "--no-defaults", "-S", dir+"/s", "-u", "root", "-e", "select 1").Run() == nil
	})
	return m
}

func (m *realMariaDB) sql(t *testing.T, text string) string {
	t.Helper()
	return strings.TrimSpace(run(t, exec.Command(need(t, "mariadb", "mariadb-client"), "--no-defaults", "-S", m.dir+"/s", "-u", "root", "-BN", "-e", text)))
}

// A primary and its replica, by read_only, and a replication that breaks.
func TestRealMariaDB(t *testing.T) {
	primary := startMariaDB(t, "--server-id=1", "--log-bin=bin")
	replica := startMariaDB(t, "--server-id=2", "--read-only")
	const user = "create user weir@'%' identified by 'hunter2'; grant slave monitor on *.* to weir@'%'"
	primary.sql(t, "create user repl@'%' identified by 'x'; grant replication slave on *.* to repl@'%'; "+user)
	replica.sql(t, fmt.Sprintf("change master to master_host='127.0.0.1', master_port=%d, master_user='repl', master_password='x', master_use_gtid=slave_pos; start slave", primary.Addr.Port()))
	eventually(t, 20*time.Second, "the replica knows the user", func() bool {
		return replica.sql(t, "select count(*) from mysql.user where user = 'weir'") == "1"
	})
	a := newProber(t, primary.Target, conf.CheckMySQL, func(h *conf.HealthCheck) { asWeir(h); h.Role = conf.Primary })
	b := newProber(t, replica.Target, conf.CheckMySQL, func(h *conf.HealthCheck) { asWeir(h); h.Role, h.MaxLag = conf.Replica, time.Minute })
	if r := a.wantOK("read_only is OFF"); r.role != conf.Primary {
		t.Errorf("the primary is read as %+v", r)
	}
	if r := b.wantOK("read_only is ON"); r.role != conf.Replica || r.lag < 0 {
		t.Errorf("the replica is read as %+v", r)
	}
	replica.sql(t, "stop slave")
	if r := b.wantOK("read_only is ON"); r.lag != -1 {
		t.Errorf("lag %v of a replica that is stopped", r.lag)
	}
	replica.sql(t, "set global read_only = off")
	if r := b.wantOK("read_only is OFF"); r.role != conf.Primary {
		t.Errorf("the promoted replica is read as %+v", r)
	}
	primary.sql(t, "kill user weir")
	a.wantOK("read_only is OFF") // on a fresh connection
	newProber(t, primary.Target, conf.CheckMySQL, func(h *conf.HealthCheck) { asWeir(h); h.Password = "hunter3" }).
		wantFailure("logging in: Error 1045 (28000): Access denied for user 'weir'@'localhost' (using password: YES)")
	newProber(t, primary.Target, conf.CheckMySQL, func(h *conf.HealthCheck) { asWeir(h); h.Galera = true }).
		wantFailure("wsrep_ready is OFF")
	newProber(t, primary.Target, conf.CheckMySQL, nil).wantOK("answers, and wants a user")
}

// from returns a target that forwards to another from an address of this host.
func from(t *testing.T, addr string, to Target) Target {
	t.Helper()
	return serve(t, func(c net.Conn) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
		up, err := d.Dial("tcp", to.Addr.String())
		if err != nil {
			return
		}
		defer up.Close()
		var back sync.WaitGroup
		back.Go(func() {
			io.Copy(c, up)
			c.(*net.TCPConn).CloseWrite()
		})
		io.Copy(up, c)
		up.(*net.TCPConn).CloseWrite()
		back.Wait()
	})
}

// Two thousand checks of each kind neither get their host blocked nor count as
// aborted, and those with a user leave nothing in the log.
func TestMariaDBDoesNotMind(t *testing.T) {
	if os.Geteuid() != 0 {
		missing(t, "root, to give a server a hosts file of its own")
	}
	// Nobody is blocked at 127.0.0.1, or where the server finds no name.
	dir := openDir(t)
	if err := os.WriteFile(dir+"/hosts", []byte("127.0.0.1 localhost\n127.0.0.2 client\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	by := []string{need(t, "unshare", "util-linux"), "--mount", need(t, "sh", "dash"), "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, dir + "/hosts"}
	m := startMariaDBBy(t, dir, by, "--max-connect-errors=10")
	m.sql(t, "create user weir@'%' identified by 'hunter2'")
	client := from(t, "127.0.0.2", m.Target)
	in, out := conf.NewHealthCheck(conf.CheckMySQL), conf.NewHealthCheck(conf.CheckMySQL)
	asWeir(&in)
	wantNone := func(status string) {
		t.Helper()
		if got := m.sql(t, "show global status like '"+status+"'"); got != status+"\t0" {
			t.Errorf("%s, want none", got)
		}
	}
	before := m.log.String()
	politely(t, client, 2000, in)
	if said := strings.TrimPrefix(m.log.String(), before); said != "" {
		t.Errorf("MariaDB says: %s", said)
	}
	wantNone("Aborted_clients")
	wantNone("Aborted_connects")
	politely(t, client, 500, out, out, out, out)
	for line := range strings.Lines(strings.TrimPrefix(m.log.String(), before)) {
		if !strings.Contains(line, "Access denied for user ''@'client'") {
			t.Errorf("MariaDB says: %s", line)
		}
	}
	wantNone("Aborted_clients")
	politely(t, client, 4, in) // it is not blocked

	// This test would see it: who leaves before the handshake's end is blocked,
	// unless a login comes before the server has noticed.
	eventually(t, 20*time.Second, "a rude client is blocked", func() bool {
		for range 20 {
			c, err := net.Dial("tcp", client.Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			c.Read(make([]byte, 1))
			c.Close()
		}
		_, failure := newProber(t, client, conf.CheckMySQL, asWeir).once()
		return strings.Contains(failure, "Error 1129")
	})
}
