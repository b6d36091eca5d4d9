package stream

import (
	"io/fs"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// CPUs returns how many CPUs this process may use: its affinity mask, lowered
// by the cgroup CPU quota, rounded up. root is the file system's root. The Go
// runtime's own GOMAXPROCS never goes below 2 for a quota, which would be one
// worker too many for half a CPU.
func CPUs(root fs.FS) int {
	n := runtime.NumCPU() // affinity at process start
	if q, ok := cpuQuota(root); ok {
		n = min(n, max(int(math.Ceil(q)), 1))
	}
	return n
}

// cpuQuota returns the smallest CPU quota, in CPUs, of the cgroups that this
// process is in (cgroups(7); cpu.max of version 2, cpu.cfs_quota_us of 1).
func cpuQuota(root fs.FS) (cpus float64, ok bool) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	cpus = math.Inf(1)
	for _, line := range strings.Split(string(text), "\n") {
		// hierarchy-ID:controllers:path
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, read := "sys/fs/cgroup", quotaV2
		if f[1] != "" {
			if !strings.Contains(","+f[1]+",", ",cpu,") {
				continue
			}
			mount, read = "sys/fs/cgroup/cpu", quotaV1
		}
		// A quota of any group above counts too. Inside a container the path
		// may not exist below the mount; then the mount itself is our group.
		for dir := path.Join(mount, f[2]); ; dir = path.Dir(dir) {
			if q, found := read(root, dir); found {
				cpus = min(cpus, q)
			}
			if len(dir) <= len(mount) {
				break
			}
		}
	}
	return cpus, !math.IsInf(cpus, 1)
}

func quotaV2(root fs.FS, dir string) (float64, bool) {
	text, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0, false
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return ratio(quota, period)
}

func quotaV1(root fs.FS, dir string) (float64, bool) {
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, false
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0, false
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// ratio returns quota/period; "max" and -1 are no quota.
func ratio(quota, period string) (float64, bool) {
	q, errQ := strconv.ParseFloat(quota, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return q / p, true
}
