package hclfile

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/weirlb/weir/conf"
)

var logBlock = &block{
	name:   "log",
	header: "log {",
	single: true,
	attrs: []attribute{
		{"level", kindString, `"info"`},
		{"format", kindString, `"text"`},
		{"access", kindString, `"stdout"`},
		{"decisions", kindString, `"failures"`},
		{"fields", kindList, `["time", "remote_addr", "status"]`},
	},
}

var logLevels = []choice[slog.Level]{
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

var logFormats = []choice[conf.Format]{
	{"text", conf.Text},
	{"json", conf.JSON},
}

var logDecisions = []choice[conf.Decisions]{
	{"off", conf.DecisionsOff},
	{"failures", conf.DecisionsFailures},
	{"all", conf.DecisionsAll},
}

func (d *decoder) log(b *body, l *conf.Log) {
	choose(b, "level", logLevels, nil, &l.Level)
	choose(b, "format", logFormats, nil, &l.Format)
	choose(b, "decisions", logDecisions, nil, &l.Decisions)
	if text, at, ok := b.text("access"); ok {
		if advice := checkAccess(text); advice != "" {
			d.errorf(at, fmt.Sprintf("access can't be %q", text), "%s", advice)
		}
		l.Access = text
	}
	d.fields(b, l)
}

// checkAccess says what to write instead of a destination that is none, or "".
func checkAccess(text string) string {
	keywords := []string{conf.AccessOff, conf.AccessStdout, conf.AccessStderr}
	switch {
	case slices.Contains(keywords, text):
		return ""
	case strings.HasPrefix(text, "/") && !strings.HasSuffix(text, "/") && !strings.ContainsRune(text, 0):
		return ""
	case strings.HasPrefix(text, "/"):
		return `It needs the path of a file, such as "/var/log/weir/access.log".`
	case strings.Contains(text, "/"):
		return `The path must be absolute, because a daemon may be started in any directory: write "/var/log/weir/access.log".`
	}
	if near := nearest(text, keywords); near != "" {
		return fmt.Sprintf("Write %q.", near)
	}
	return `Write "off", "stdout", "stderr" or an absolute path such as "/var/log/weir/access.log".`
}

func (d *decoder) fields(b *body, l *conf.Log) {
	list, at, ok := b.list("fields")
	if !ok {
		return
	}
	if len(list) == 0 {
		d.errorf(at, "fields is empty", `A log line needs at least one field. Remove the attribute for the default ones, or write log { access = "off" } for no lines at all.`)
		return
	}
	names := variableNames(conf.LogVariables())
	seen := map[string]item{}
	var fields []conf.Variable
	for _, it := range list {
		name := strings.TrimPrefix(it.text, "$")
		first, repeated := seen[it.text]
		switch {
		case repeated:
			d.report(it.at, fmt.Sprintf("field %q is listed twice", it.text), "Remove one of the two.", related{first.at, "first listed here"})
		case slices.Contains(names, it.text):
			fields = append(fields, conf.Variable(it.text))
		case slices.Contains(names, name):
			d.errorf(it.at, fmt.Sprintf("unknown field %q", it.text), "Variables are written without the dollar: write %q.", name)
		case slices.Contains(laterVariables, name):
			d.notBuilt(it.at, it.text, "among the log fields")
		default:
			d.errorf(it.at, fmt.Sprintf("unknown field %q", it.text), "%s", instead(name, names))
		}
		seen[it.text] = it
	}
	l.Fields = fields
}
