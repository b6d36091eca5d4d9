package conf

import (
	"errors"
	"fmt"
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
		number, err := strconv.ParseFloat(rest[:digits], 64)
		if err != nil {
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
		if number > float64(MaxDuration)/float64(unit) {
			return 0, fmt.Errorf("%q is longer than a year: write a shorter time, or \"off\" where the timeout may be absent", text)
		}
		sum += time.Duration(number * float64(unit))
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
