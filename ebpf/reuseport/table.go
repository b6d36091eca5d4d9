package reuseport

import "slices"

// byCPU fills the table that CPU numbers are looked up in.
func byCPU(table *[buckets]uint8, workers int) {
	for cpu := range table {
		table[cpu] = uint8(cpu % workers)
	}
}

// byHash fills the table that hashes are looked up in: every worker has the
// same share, to one bucket, and from n to n+1 workers no bucket moves but
// those that the new worker takes. (Rendezvous hashing has the second property
// but not the first: among 64 workers the busiest had 1.3 of the mean share.)
func byHash(table *[buckets]uint8, workers int) {
	clear(table[:])
	held := make([]int, workers)
	held[0] = buckets
	// The step has no factor in common with the table's size, so the walk
	// comes by every bucket, and takes from all over the table.
	const step = 2531
	b := 0
	for w := 1; w < workers; w++ {
		share := buckets / (w + 1)
		most := slices.Max(held[:w])
		for held[w] < share {
			from := table[b]
			if int(from) < w && held[from] == most {
				table[b] = uint8(w)
				held[from]--
				held[w]++
				most = slices.Max(held[:w])
			}
			b = (b + step) % buckets
		}
	}
}
