package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tool is a program the comparison runs and the Debian packages it comes from.
type tool struct {
	program  string
	packages []string
	optional bool // the comparison runs without it
}

var tools = []tool{
	{"iperf", []string{"iperf"}, false},
	{"iperf3", []string{"iperf3"}, false},
	{"wrk", []string{"wrk"}, false},
	{"nginx", []string{"nginx", "libnginx-mod-stream"}, false},
	{"haproxy", []string{"haproxy"}, false},
	{"postgres", []string{"postgresql"}, false},
	{"pgbench", []string{"postgresql"}, false},
	{"redis-server", []string{"redis-server"}, false},
	{"redis-benchmark", []string{"redis-tools"}, false},
	{"strace", []string{"strace"}, true},
}

// sbinPath is searched besides PATH: ordinary users often lack these, and the
// proxies live there.
const sbinPath = "/usr/local/sbin:/usr/sbin:/sbin"

// setPath has PATH lead to the tools. PostgreSQL's own directories come first,
// the newest before the others: what PATH has of it are wrappers that look for a
// configured cluster.
func setPath(path string) error {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	return os.Setenv("PATH", strings.Join(append(dirs, path, sbinPath), ":"))
}

// ensureTools finds every tool. Missing ones are installed when this runs as
// root on a system with apt-get, and named in the error otherwise.
func ensureTools(install bool) error {
	path := os.Getenv("PATH")
	if err := setPath(path); err != nil {
		return err
	}
	needed, optional := missingPackages()
	missing := slices.Concat(needed, optional)
	if len(missing) == 0 {
		return nil
	}
	hint := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || !install || os.Geteuid() != 0 {
		if len(needed) == 0 {
			return nil
		}
		return fmt.Errorf("find tools: missing; install them first: %s", hint)
	}
	fmt.Fprintln(os.Stderr, "bench: installing", strings.Join(missing, " "))
	if err := aptInstall(missing); err != nil {
		return fmt.Errorf("%s: %w", hint, err)
	}
	if err := setPath(path); err != nil {
		return err
	}
	if still, _ := missingPackages(); len(still) > 0 {
		return fmt.Errorf("find tools: still missing after the installation: %s", strings.Join(still, " "))
	}
	return nil
}

func missingPackages() (needed, optional []string) {
	for _, t := range tools {
		_, err := exec.LookPath(t.program)
		switch {
		case err != nil && t.optional:
			optional = append(optional, t.packages...)
		case err != nil:
			needed = append(needed, t.packages...)
		case t.program == "nginx" && streamModuleMissing():
			needed = append(needed, "libnginx-mod-stream")
		}
	}
	return needed, optional
}

func streamModuleMissing() bool {
	_, err := nginxStreamModule()
	return err != nil
}

// policyFile, while it exists and answers 101, keeps Debian's maintainer
// scripts from starting the services they install.
const policyFile = "/usr/sbin/policy-rc.d"

func aptInstall(packages []string) error {
	if _, err := os.Stat(policyFile); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policyFile, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return err
		}
		defer os.Remove(policyFile)
	}
	args := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)
	if aptGet(args...) == nil {
		return nil
	}
	// A fresh image has no package lists yet.
	if err := aptGet("update", "-qq"); err != nil {
		return err
	}
	return aptGet(args...)
}

func aptGet(args ...string) error {
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(out.String()))
	}
	return nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
