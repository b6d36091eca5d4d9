package tcp

// demand is how much a pool has lent. It tells how many free ones are worth
// keeping: a load that goes on shall not let go of what it will want back.
type demand struct {
	lent int
	peak int // the most lent since spare was last called
}

func (d *demand) lend() {
	d.lent++
	d.peak = max(d.peak, d.lent)
}

func (d *demand) back() { d.lent-- }

// spare returns how many free ones the pool has needed since the last call, at
// least so many.
func (d *demand) spare(least int) int {
	keep := max(d.peak-d.lent, least)
	d.peak = d.lent
	return keep
}
