package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBucketsAreThreePercentWide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		// Evenly distributed over the octaves.
		d := time.Duration(math.Exp2(lowest + rng.Float64()*octaves))
		i := bucket(d)
		if off := math.Abs(float64(middle(i)-d)) / float64(d); off > 1.0/64+1e-9 {
			t.Fatalf("%v is in bucket %d, the middle of which is %v: off by %.2f %%", d, i, middle(i), 100*off)
		}
	}
	for i := range buckets {
		if got := bucket(middle(i)); got != i {
			t.Errorf("the middle of bucket %d is in bucket %d", i, got)
		}
	}
}

func TestOutOfRangeCountsAsTheNearest(t *testing.T) {
	for d, want := range map[time.Duration]int{
		math.MinInt64: 0, -1: 0, 0: 0, time.Microsecond: 0, 1 << lowest: 0,
		1<<36 - 1: buckets - 1, 1 << 36: buckets - 1, math.MaxInt64: buckets - 1,
	} {
		if got := bucket(d); got != want {
			t.Errorf("bucket(%d) = %d, want %d", d, got, want)
		}
	}
}

// exact is the slow and obvious quantile by nearest rank.
func exact(samples []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(samples))
	for i := range s {
		if float64(i+1) >= q*float64(len(s))-1e-9 {
			return s[i]
		}
	}
	return s[len(s)-1]
}

func near(a, b time.Duration) bool {
	return math.Abs(float64(a-b)) <= float64(b)/60
}

func TestTakeAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var w Window
	for round := range 300 {
		var samples []time.Duration
		var sum time.Duration
		for range 1 + rng.IntN(300) {
			d := time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond))
			d = max(d, 2*time.Microsecond)
			samples = append(samples, d)
			sum += d
			w.Observe(d)
		}
		if w.Count() != len(samples) {
			t.Fatalf("Count() = %d, want %d", w.Count(), len(samples))
		}
		q := []float64{0, 0.07, 0.5, 0.9, 0.95, 0.99, 1}[round%7]
		got, mean, n := w.Take(q)
		if want := exact(samples, q); n != len(samples) || !near(got, want) {
			t.Errorf("round %d: quantile %v of %d samples is %v, want %v of %d", round, q, n, got, want, len(samples))
		}
		if want := sum / time.Duration(n); !near(mean, want) {
			t.Errorf("round %d: mean %v, want %v", round, mean, want)
		}
	}
	if q, mean, n := w.Take(0.95); q != 0 || mean != 0 || n != 0 || w.Count() != 0 {
		t.Errorf("an empty window gives %v, %v, %d", q, mean, n)
	}
}

func TestTakeLosesNothing(t *testing.T) {
	const observers, each = 4, 20_000
	var w Window
	var wg sync.WaitGroup
	for i := range observers {
		wg.Go(func() {
			for j := range each {
				w.Observe(time.Duration(i*each+j) * time.Microsecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	total := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		_, _, n := w.Take(0.5)
		total += n
	}
	if total != observers*each || w.Count() != 0 {
		t.Errorf("%d samples were taken and %d are left, of %d", total, w.Count(), observers*each)
	}
}

func TestRecentNeedsFiftySamples(t *testing.T) {
	var r Recent
	for i := range 60 {
		if d, ok := r.Quantile(0.5); ok != (i >= 50) {
			t.Fatalf("after %d samples: %v, %v", i, d, ok)
		}
		r.Observe(time.Millisecond)
	}
}

func TestRecentForgets(t *testing.T) {
	var r Recent
	for range 5000 {
		r.Observe(time.Second)
	}
	for i := range 2000 {
		r.Observe(time.Millisecond)
		if d, _ := r.Quantile(0.95); i < 50 && d < 900*time.Millisecond {
			t.Fatalf("after %d fast samples the 0.95 is %v already", i, d)
		}
	}
	if d, _ := r.Quantile(1); d > 2*time.Millisecond {
		t.Errorf("after 2000 fast samples the slowest is %v", d)
	}
}

// The latest samples are compared with the answer, which may be 64 of them old.
func TestRecentAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var r Recent
	var all []time.Duration
	quantiles := []float64{0.5, 0.9, 0.95, 0.99, 0.25, 0.75} // more than are remembered
	for i := range 20_000 {
		// The level moves slowly, so that old samples would show.
		level := 10 + 8*math.Sin(float64(i)/3000)
		d := time.Duration((level + rng.Float64()) * float64(time.Millisecond))
		all = append(all, d)
		r.Observe(d)
		q := quantiles[rng.IntN(len(quantiles))]
		got, ok := r.Quantile(q)
		if !ok || i%97 != 0 {
			continue
		}
		now, old := held(all, q), held(all[:max(len(all)-stale+1, fewest)], q)
		lo, hi := min(now, old), max(now, old)
		if slack := hi / 20; got < lo-slack || got > hi+slack {
			t.Fatalf("after %d samples the %v is %v, want %v..%v", len(all), q, got, lo, hi)
		}
	}
}

// held is the exact quantile of those of all samples that a Recent holds.
func held(all []time.Duration, q float64) time.Duration {
	kept := generation + (len(all)-1)%generation + 1
	return exact(all[max(0, len(all)-kept):], q)
}

func TestRecentFromManyGoroutines(t *testing.T) {
	var r Recent
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				r.Observe(time.Duration(1+i%10) * time.Millisecond)
				if i%16 == 0 {
					if d, ok := r.Quantile([]float64{0.5, 0.9}[i/16%2]); ok && (d < 900*time.Microsecond || d > 11*time.Millisecond) {
						t.Errorf("quantile %v", d)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if d, ok := r.Quantile(0.9); !ok || d < 8800*time.Microsecond || d > 10200*time.Microsecond {
		t.Errorf("the 0.9 of 1..10 ms is %v, %v", d, ok)
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	var w Window
	var r Recent
	for name, f := range map[string]func(){
		"Window.Observe": func() { w.Observe(time.Millisecond) },
		"Window.Take":    func() { w.Take(0.95) },
		"Recent.Observe": func() { r.Observe(time.Millisecond) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkWindowObserve(b *testing.B) {
	var w Window
	b.ReportAllocs()
	for b.Loop() {
		w.Observe(7 * time.Millisecond)
	}
}

func BenchmarkWindowTake(b *testing.B) {
	var w Window
	b.ReportAllocs()
	for b.Loop() {
		w.Observe(7 * time.Millisecond)
		w.Take(0.95)
	}
}

func BenchmarkRecentObserve(b *testing.B) {
	var r Recent
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(7 * time.Millisecond)
	}
}

// A sample and a question for each session, as hedging has it.
func BenchmarkRecentQuantile(b *testing.B) {
	var r Recent
	b.ReportAllocs()
	for b.Loop() {
		r.Observe(7 * time.Millisecond)
		r.Quantile(0.95)
	}
}
