package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var (
	pgbenchSelect = pgbenchScenario("pgbench-select", "one SELECT a transaction on connections kept open", "-M", "prepared")
	// The start of a server process takes twenty times what a proxy does in it.
	pgbenchConnect = pgbenchScenario("pgbench-connect", "a connection for every SELECT", "-C")
)

const pgbenchClients = 16

func pgbenchScenario(name, title string, args ...string) scenario {
	run := pgbenchRun{args}
	return scenario{
		name:  name,
		title: "PostgreSQL, " + title,
		setup: fmt.Sprintf("pgbench -S %s, %d clients, 2 threads, scale 1; PostgreSQL with 256 MB of shared buffers, fsync and autovacuum off; mean is pgbench's average latency; warm-up of 1 s; nothing pinned", strings.Join(args, " "), pgbenchClients),
		metrics: append([]metric{
			{Name: "rate", Unit: "transactions/s"},
			{Name: "mean", Unit: "us", Lower: true},
		}, costMetrics("us/transaction")...),
		addresses: 1,
		quick:     name == "pgbench-select",
		backend:   startPostgres,
		warm: func(ctx context.Context, e *env, in *instance) error {
			_, err := run.load(ctx, in, 1)
			return err
		},
		run: func(ctx context.Context, e *env, in *instance, _ int) (sample, error) {
			var got pgbenchResult
			s, err := measured(ctx, in, time.Microsecond, func() (float64, map[string]float64, error) {
				var err error
				got, err = run.load(ctx, in, e.seconds)
				return got.transactions, map[string]float64{"rate": got.rate, "mean": got.mean}, err
			})
			if got.failed > 0 {
				s.Flaw = fmt.Sprintf("%.0f transactions failed", got.failed)
			}
			return s, err
		},
	}
}

// pgbenchRun is one pgbench run through an instance.
type pgbenchRun struct{ args []string }

func (r pgbenchRun) load(ctx context.Context, in *instance, seconds int) (pgbenchResult, error) {
	argv, err := postgresClient("pgbench", in.target(0), append([]string{"-n", "-S", "-c", strconv.Itoa(pgbenchClients), "-j", "2", "-T", strconv.Itoa(seconds)}, r.args...)...)
	if err != nil {
		return pgbenchResult{}, err
	}
	out, err := runTool(ctx, time.Duration(seconds+15)*time.Second, append(argv, "postgres")...)
	if err != nil {
		return pgbenchResult{}, err
	}
	return parsePgbench(out)
}

func postgresClient(program, addr string, args ...string) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	return append([]string{program, "-h", host, "-p", port, "-U", "postgres"}, args...), err
}

// pgbenchResult is what pgbench printed; mean is in microseconds.
type pgbenchResult struct{ transactions, failed, rate, mean float64 }

var pgbenchLines = regexp.MustCompile(`(?m)^(number of transactions actually processed: |number of failed transactions: |latency average = |tps = )([\d.]+)`)

func parsePgbench(out string) (pgbenchResult, error) {
	found := make(map[string]float64)
	for _, m := range pgbenchLines.FindAllStringSubmatch(out, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return pgbenchResult{}, fmt.Errorf("parse pgbench: %w", err)
		}
		found[strings.TrimRight(m[1], " :=")] = v
	}
	r := pgbenchResult{
		transactions: found["number of transactions actually processed"],
		failed:       found["number of failed transactions"],
		rate:         found["tps"],
		mean:         1000 * found["latency average"],
	}
	if r.transactions == 0 || r.rate == 0 || r.mean == 0 {
		return r, fmt.Errorf("parse pgbench: no result in %q", out)
	}
	return r, nil
}

// startPostgres runs a fresh server, which has its directory to itself.
func startPostgres(ctx context.Context, e *env, addrs []string) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "weir-bench-postgres-")
	if err != nil {
		return nil, err
	}
	var server *process
	stop = func() {
		server.stop()
		os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	attr, err := ordinaryUser(dir)
	if err != nil {
		return nil, err
	}
	var hosts []string
	port := ""
	for _, addr := range addrs {
		host, p, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		hosts, port = append(hosts, host), p
	}
	data := dir + "/data"
	create := exec.CommandContext(ctx, "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync")
	create.Dir, create.SysProcAttr = dir, attr
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, lastLine(string(out)))
	}
	cmd := exec.Command("postgres", "-D", data, "-p", port, "-k", "", "-c", "listen_addresses="+strings.Join(hosts, ","),
		"-c", "max_connections=100", "-c", "shared_buffers=256MB", "-c", "fsync=off", "-c", "autovacuum=off")
	cmd.Dir, cmd.SysProcAttr = dir, attr
	// SIGINT has it end its sessions and stop.
	if server, err = e.startCommand("postgres", syscall.SIGINT, cmd); err != nil {
		return nil, err
	}
	if err := server.waitListening(ctx, addrs); err != nil {
		return nil, err
	}
	return stop, fillPostgres(ctx, server, addrs[0])
}

// fillPostgres makes pgbench's tables once the server is ready.
func fillPostgres(ctx context.Context, server *process, addr string) error {
	isReady, err1 := postgresClient("pg_isready", addr, "-q")
	fill, err2 := postgresClient("pgbench", addr, "-i", "-q", "postgres")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		_, err := runTool(ctx, startTimeout, isReady...)
		if err == nil {
			break
		}
		if server.exited() || ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("start postgres: %w%s", err, server.logTail())
		}
	}
	_, err := runTool(ctx, 30*time.Second, fill...)
	return err
}

// ordinaryUser gives a directory to an ordinary user and returns the attributes
// of a process of that user: PostgreSQL insists on one.
func ordinaryUser(dir string) (*syscall.SysProcAttr, error) {
	attr := childAttr(syscall.SIGINT)
	if os.Geteuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid)))
	}
	return nil, errors.New("start postgres: root may not, and there is no user named postgres or nobody")
}
