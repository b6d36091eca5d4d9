package hclfile

import (
	"github.com/weirlb/weir/conf"
)

var onStateBlock = &block{
	name:   "on_state",
	header: "on_state {",
	single: true,
	attrs: []attribute{
		{"unhealthy", kindString, `"close"`},
		{"standby", kindString, `"close"`},
		{"lagging", kindString, `"keep"`},
		{"drained", kindString, `"drain"`},
		{"removed", kindString, `"drain"`},
		{"pace", kindRate, `"200/s"`},
	},
}

var outlierBlock = &block{
	name:   "outlier_detection",
	header: "outlier_detection {",
	single: true,
	attrs: []attribute{
		{"consecutive_failures", kindNumber, `5`},
		{"min_success_rate", kindRatio, `0.8`},
		{"interval", kindDuration, `"10s"`},
		{"base_ejection_time", kindDuration, `"30s"`},
		{"max_ejection", kindPercent, `"50%"`},
	},
}

// fates is what may become of sessions.
var fates = []choice[conf.Fate]{{"keep", conf.Keep}, {"drain", conf.DrainFate}, {"close", conf.CloseFate}}

// stateFates names the field of each verdict that decides about sessions.
var stateFates = []struct {
	name string
	of   func(*conf.OnState) *conf.Fate
}{
	{"unhealthy", func(o *conf.OnState) *conf.Fate { return &o.Unhealthy }},
	{"standby", func(o *conf.OnState) *conf.Fate { return &o.Standby }},
	{"lagging", func(o *conf.OnState) *conf.Fate { return &o.Lagging }},
	{"drained", func(o *conf.OnState) *conf.Fate { return &o.Drained }},
	{"removed", func(o *conf.OnState) *conf.Fate { return &o.Removed }},
}

func (d *decoder) onState(b *body, u *declaredUpstream) {
	u.onState = b
	for _, f := range stateFates {
		choose(b, f.name, fates, nil, f.of(&u.OnState))
	}
	b.rate("pace", &u.OnState.Pace)
}

// maxInARow bounds numbers of failures and successes in a row: far more than
// anybody waits for.
const maxInARow = 1000

func (d *decoder) outliers(b *body, u *declaredUpstream) {
	o := conf.DefaultOutlierDetection()
	b.number("consecutive_failures", 0, maxInARow, &o.ConsecutiveFailures)
	b.ratio("min_success_rate", &o.MinSuccessRate)
	b.duration("interval", never, &o.Interval)
	b.duration("base_ejection_time", never, &o.BaseEjectionTime)
	b.percent("max_ejection", never, &o.MaxEjection)
	if o.ConsecutiveFailures == 0 && o.MinSuccessRate == 0 {
		d.errorf(b.headerAt, "outlier_detection looks at nothing",
			"With consecutive_failures = 0 and min_success_rate = 0 no server is ever ejected. Remove the block, or one of the two.")
	}
	u.Outlier = &o
}
