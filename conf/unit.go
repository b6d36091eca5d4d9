package conf

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration such as "250ms", "10s", "1h30m" or "2d": one
// or more numbers, each with its unit (ms, s, m, h, d). The result is between
// 1 ms and MaxDuration. It does not know "off".
func ParseDuration(text string) (time.Duration, error) {
	const longest = 64 // far more than all units together need
	if len(text) > longest {
		return 0, fmt.Errorf("a duration of %d characters is too long: write one such as \"1h30m\"", len(text))
	}
	d, err := parseDuration(text)
	if err == nil {
		return d, nil
	}
	// What people write for the units: long names and spaces.
	short := longUnits.Replace(strings.ToLower(strings.ReplaceAll(text, " ", "")))
	if d, shortErr := parseDuration(short); short != text && shortErr == nil {
		return 0, fmt.Errorf("%q is not a duration: write %q", text, FormatDuration(d))
	}
	return 0, err
}

func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New(`the duration is empty: write one such as "30s"`)
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n == 0 {
			return 0, errors.New(`0 is not a duration here: write "off" if the timeout shall be absent, or a time such as "1s"`)
		}
		return 0, fmt.Errorf("%q has no unit: write %q for seconds or %q for milliseconds", text, text+"s", text+"ms")
	}
	var sum time.Duration
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number, ok := new(big.Rat).SetString(rest[:digits]) // exact: in floating point 4.1 s is a nanosecond short
		if !ok {
			return 0, fmt.Errorf("%q is not a duration: write a number and a unit, such as \"250ms\", \"10s\", \"5m\", \"1h\" or \"2d\"", text)
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ"))
		unit, ok := durationUnits[rest[:letters]]
		if !ok && letters == 0 {
			return 0, fmt.Errorf("%q is not a duration: write a number and a unit, such as \"250ms\", \"10s\", \"5m\", \"1h\" or \"2d\"", text)
		}
		if !ok {
			return 0, fmt.Errorf("%q has an unknown unit %q: the units are ms, s, m, h and d", text, rest[:letters])
		}
		rest = rest[letters:]
		number.Mul(number, big.NewRat(int64(unit), 1))
		if number.Cmp(big.NewRat(int64(MaxDuration), 1)) > 0 {
			return 0, fmt.Errorf("%q is longer than a year: write a shorter time, or \"off\" where the timeout may be absent", text)
		}
		if !number.IsInt() {
			return 0, fmt.Errorf("%q is not a whole number of milliseconds", text)
		}
		sum += time.Duration(number.Num().Int64())
	}
	switch {
	case sum == 0:
		return 0, errors.New(`0 is not a duration here: write "off" if the timeout shall be absent, or a time such as "1s"`)
	case sum < time.Millisecond || sum%time.Millisecond != 0:
		return 0, fmt.Errorf("%q is not a whole number of milliseconds", text)
	case sum > MaxDuration:
		return 0, fmt.Errorf("%q is longer than a year: write a shorter time, or \"off\" where the timeout may be absent", text)
	}
	return sum, nil
}

// longUnits shortens the names of units, longer names first.
var longUnits = strings.NewReplacer(
	"milliseconds", "ms", "millisecond", "ms", "msecs", "ms", "msec", "ms",
	"seconds", "s", "second", "s", "secs", "s", "sec", "s",
	"minutes", "m", "minute", "m", "mins", "m", "min", "m",
	"hours", "h", "hour", "h", "hrs", "h", "hr", "h",
	"days", "d", "day", "d",
)

var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond,
	"s":  time.Second,
	"m":  time.Minute,
	"h":  time.Hour,
	"d":  24 * time.Hour,
}

// FormatDuration writes a duration in the units that ParseDuration reads, and
// Off as "off".
func FormatDuration(d time.Duration) string {
	switch {
	case d == Off:
		return "off"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// ParseRate reads a rate such as "200/s" or "0.5/s": events in a second. The
// result is between 0.001 and MaxRate. It does not know "off".
func ParseRate(text string) (Rate, error) {
	const longest = 32 // far more than any rate needs
	number, unit, found := strings.Cut(strings.TrimSpace(text), "/")
	number, unit = strings.TrimSpace(number), strings.TrimSpace(unit)
	n, err := strconv.ParseFloat(number, 64)
	plain := number != "" && len(number) <= longest && strings.Trim(number, "0123456789.") == ""
	switch {
	case err != nil || !plain:
		return 0, fmt.Errorf("%q is not a rate: write a number for each second, such as \"200/s\"", text)
	case n == 0:
		return 0, fmt.Errorf("%q is not a rate: write \"off\" for no limit, or a number for each second, such as \"200/s\"", text)
	case n < minRate:
		return 0, fmt.Errorf("%q is less than one in 1000 s: write \"%v/s\" or more", text, minRate)
	case n > float64(MaxRate):
		return 0, fmt.Errorf("%q is more than %s", text, FormatRate(MaxRate))
	case !found:
		return 0, fmt.Errorf("%q has no unit: write \"%s/s\"", text, number)
	}
	if unit == "s" && text == number+"/s" {
		return Rate(n), nil
	}
	// What people write for the units.
	for _, long := range []struct {
		names   []string
		seconds float64
	}{{[]string{"s", "sec", "second"}, 1}, {[]string{"m", "min", "minute"}, 60}, {[]string{"h", "hr", "hour"}, 3600}} {
		if slices.Contains(long.names, strings.ToLower(unit)) {
			thousandths := math.Round(n / long.seconds * 1000)
			return 0, fmt.Errorf("%q is not a rate: rates are for each second, write \"%v/s\"", text, max(thousandths/1000, minRate))
		}
	}
	return 0, fmt.Errorf("%q has an unknown unit %q: write \"%s/s\"", text, unit, number)
}

// MaxRate is the highest rate that a configuration may hold.
const MaxRate Rate = 1e9

const minRate = 0.001

// FormatRate writes a rate as ParseRate reads it, and 0 as "off".
func FormatRate(r Rate) string {
	if r == 0 {
		return "off"
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s"
}

// MaxByteRate is the highest byte rate that a configuration may hold.
const MaxByteRate ByteRate = 1 << 40

// byteUnits are the units of sizes, the largest first.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// byteRateForm takes a byte rate apart, and what people write for one: number,
// unit and time.
var byteRateForm = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)\s*(?:/\s*([A-Za-z]*)\s*)?$`)

// ParseByteRate reads a rate such as "10MiB/s": a number of B, KiB, MiB or GiB
// in a second. The result is a whole number of bytes, from 1 to MaxByteRate. It
// does not know "off".
func ParseByteRate(text string) (ByteRate, error) {
	const longest = 32 // far more than any rate needs
	var m []string
	if len(text) <= longest {
		m = byteRateForm.FindStringSubmatch(text)
	}
	if m == nil {
		return 0, fmt.Errorf("%q is not a rate: write bytes for each second, such as \"10MiB/s\"", text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	unit, known := readByteUnit(m[2])
	seconds, timed := map[string]float64{"": 1, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}[strings.ToLower(m[3])]
	rate := n * unit.bytes / seconds
	near := FormatByteRate(max(1, ByteRate(min(math.Round(rate), float64(MaxByteRate)))))
	switch {
	case err != nil || n == 0:
		return 0, fmt.Errorf("%q is not a rate: write \"off\" for no limit, or bytes for each second, such as \"10MiB/s\"", text)
	case !known || !timed:
		return 0, fmt.Errorf("%q has an unknown unit: the units are B/s, KiB/s, MiB/s and GiB/s", text)
	case rate > float64(MaxByteRate):
		return 0, fmt.Errorf("%q is more than %s", text, FormatByteRate(MaxByteRate))
	case unit.bits:
		return 0, fmt.Errorf("%q is in bits: a byte has 8, write %q", text, near)
	case unit.binary > 0:
		return 0, fmt.Errorf("%q is not a rate: write %q, or %q if the unit is a power of 1000", text, FormatByteRate(max(1, ByteRate(math.Round(n*unit.binary/seconds)))), near)
	case !unit.ours || text != m[1]+m[2]+"/s":
		return 0, fmt.Errorf("%q is not a rate: write %q", text, near)
	case rate != math.Trunc(rate):
		return 0, fmt.Errorf("%q is not a whole number of bytes: write %q", text, near)
	}
	return ByteRate(rate), nil
}

// byteUnit is a unit of size as somebody wrote it.
type byteUnit struct {
	bytes  float64
	ours   bool    // it is one of byteUnits
	bits   bool    // it counts bits
	binary float64 // the bytes of the unit of byteUnits that is nearly the same, if it is in powers of 1000
}

// foreignByteUnit matches the ways to write a unit of size, or of bits.
var foreignByteUnit = regexp.MustCompile(`^([kKmMgG]?)(i?)([bB]?|[bB]its?|[bB]ytes?)(ps)?$`)

// readByteUnit reads a unit of size. A bare letter is a power of 1024, as in
// nginx. A small b counts bits behind a capital letter or before "ps", as in Mb
// and mbps; people write mb for bytes.
func readByteUnit(name string) (byteUnit, bool) {
	for _, u := range byteUnits {
		if u.name == name {
			return byteUnit{bytes: float64(u.bytes), ours: true}, true
		}
	}
	m := foreignByteUnit.FindStringSubmatch(name)
	if m == nil {
		return byteUnit{}, false
	}
	prefix, i, rest, ps := m[1], m[2], m[3], m[4]
	power := float64(strings.Index(" kmg", strings.ToLower(prefix)))
	if prefix == "" {
		power = 0
	}
	binary, decimal := math.Pow(1024, power), math.Pow(1000, power)
	small := rest == "b" && i == "" && (prefix == "" || ps != "" || strings.Contains("KMG", prefix))
	switch {
	case small || strings.Contains(rest, "it"):
		if i == "" {
			binary = decimal
		}
		return byteUnit{bytes: binary / 8, bits: true}, true
	case i == "" && rest != "" && power > 0:
		return byteUnit{bytes: decimal, binary: binary}, true
	}
	return byteUnit{bytes: binary}, true
}

// FormatByteRate writes a byte rate as ParseByteRate reads it, and 0 as "off".
func FormatByteRate(r ByteRate) string {
	if r == 0 {
		return "off"
	}
	for _, u := range byteUnits {
		if int64(r)%u.bytes == 0 {
			return fmt.Sprintf("%d%s/s", int64(r)/u.bytes, u.name)
		}
	}
	panic("a byte rate that is no number of bytes")
}

// The percentiles that a configuration may hold.
const minPercentile, maxPercentile = 0.5, 0.999

var (
	percentileForm = regexp.MustCompile(`^p(\d\d(?:\.\d)?)$`)
	// percentileLike matches what people write for one: 95%, 95th, P95, p0.95.
	percentileLike = regexp.MustCompile(`^[pP]?(\d{1,2}(?:\.\d+)?|\.\d+)\s*(?:%|th)?$`)
)

// ParsePercentile reads a percentile from "p50" to "p99.9" as the share that it
// is, such as 0.95.
func ParsePercentile(text string) (float64, error) {
	if m := percentileForm.FindStringSubmatch(text); m != nil {
		if share, err := ParsePercent(m[1] + "%"); err == nil && share >= minPercentile && share <= maxPercentile {
			return share, nil
		}
		return 0, fmt.Errorf("%q is out of range: write one from %q to %q", text, FormatPercentile(minPercentile), FormatPercentile(maxPercentile))
	}
	if m := percentileLike.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if n > 1 {
			n /= 100
		}
		if err == nil && n >= minPercentile && n <= maxPercentile {
			return 0, fmt.Errorf("%q is not a percentile: write %q", text, FormatPercentile(n))
		}
	}
	return 0, fmt.Errorf("%q is not a percentile: write one such as \"p95\", from %q to %q", text, FormatPercentile(minPercentile), FormatPercentile(maxPercentile))
}

// FormatPercentile writes a share as the percentile that ParsePercentile reads,
// to a tenth of a percent.
func FormatPercentile(share float64) string {
	return "p" + strconv.FormatFloat(math.Round(share*1000)/10, 'f', -1, 64)
}

// ParsePercent reads a percentage such as "30%" as the ratio that it is, from 0
// to 1. The text of its error says what to write.
func ParsePercent(text string) (float64, error) {
	digits, isPercent := strings.CutSuffix(text, "%")
	const longest = 32
	number, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil || len(digits) > longest || strings.Trim(digits, "0123456789.") != "":
		return 0, fmt.Errorf("%q is not a percentage: write one from \"0%%\" to \"100%%\"", text)
	case !isPercent && number <= 1:
		return 0, fmt.Errorf("%q has no percent sign: write \"%s%%\" for percents, or %s without quotes for the ratio", text, digits, digits)
	case !isPercent && number <= 100:
		return 0, fmt.Errorf("%q has no percent sign: write \"%s%%\"", text, digits)
	case number > 100:
		return 0, fmt.Errorf("%q is more than all: write one from \"0%%\" to \"100%%\"", text)
	}
	// Not number/100: the ratio shall be the one that its digits say.
	return strconv.ParseFloat(digits+"e-2", 64)
}
