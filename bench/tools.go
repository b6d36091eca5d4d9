package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tool is a program the comparison runs and the Debian packages it comes from.
type tool struct {
	program  string
	packages []string
}

var tools = []tool{
	{"iperf", []string{"iperf"}},
	{"iperf3", []string{"iperf3"}},
	{"wrk", []string{"wrk"}},
	{"nginx", []string{"nginx", "libnginx-mod-stream"}},
	{"haproxy", []string{"haproxy"}},
}

// sbinPath is searched besides PATH: ordinary users often lack these, and the
// proxies live there.
const sbinPath = "/usr/local/sbin:/usr/sbin:/sbin"

// ensureTools finds every tool. Missing ones are installed when this runs as
// root on a system with apt-get, and named in the error otherwise.
func ensureTools(install bool) error {
	if err := os.Setenv("PATH", os.Getenv("PATH")+":"+sbinPath); err != nil {
		return err
	}
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	hint := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || !install || os.Geteuid() != 0 {
		return fmt.Errorf("find tools: missing; install them first: %s", hint)
	}
	fmt.Fprintln(os.Stderr, "bench: installing", strings.Join(missing, " "))
	if err := aptInstall(missing); err != nil {
		return fmt.Errorf("%s: %w", hint, err)
	}
	if still := missingPackages(); len(still) > 0 {
		return fmt.Errorf("find tools: still missing after the installation: %s", strings.Join(still, " "))
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			missing = append(missing, t.packages...)
			continue
		}
		if t.program == "nginx" && streamModuleMissing() {
			missing = append(missing, "libnginx-mod-stream")
		}
	}
	return missing
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
