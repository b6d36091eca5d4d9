package main

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weirlb/weir/bench/overload"
)

const (
	seriesHeight = 230 // of one of the two plots, in points
	runNames     = 14  // height of the names of the runs
	// seriesHeadroom is how far the axis goes above the highest value, to have
	// room for them.
	seriesHeadroom = 1.15
)

// curve is one figure over all runs.
type curve struct {
	name  string
	color color.Color
	at    func(overload.Point) float64
}

// plot draws latencies above, and what is allowed, under way and waiting below,
// with the runs one after the other on one axis of time.
func (r *overloadReport) plot(w io.Writer) error {
	title := "the load triples"
	if r.Processes > 1 {
		title += fmt.Sprintf(", through %d weirs", r.Processes)
	}
	latency, err := r.plotSeries(title, "", "p95 of the last second, ms", r.TargetMs, []curve{
		{"clients of low priority", orange, func(p overload.Point) float64 { return p.Low }},
		{"clients of high priority", green, func(p overload.Point) float64 { return p.High }},
		{"the server", blue, func(p overload.Point) float64 { return p.P95 }},
	})
	if err != nil {
		return err
	}
	load, err := r.plotSeries("", "seconds", "questions", 0, []curve{
		{"under way at the server", blue, func(p overload.Point) float64 { return float64(p.UnderWay) }},
		{"waiting in weir", orange, func(p overload.Point) float64 { return float64(p.Waiting) }},
		{"limit", grey, func(p overload.Point) float64 { return float64(p.Limit()) }},
	})
	if err != nil {
		return err
	}
	return writeSVG(w, plotWidth, 2*seriesHeight, func(c draw.Canvas) {
		rows := plot.Align([][]*plot.Plot{{latency}, {load}}, draw.Tiles{Rows: 2, Cols: 1, PadY: 2 * plotMargin}, c)
		latency.Draw(rows[0][0])
		load.Draw(rows[1][0])
	})
}

// plotSeries draws curves, and a dashed line at a target unless that is 0.
func (r *overloadReport) plotSeries(title, x, y string, target float64, curves []curve) (*plot.Plot, error) {
	p := newPlot(title, x)
	p.Y.Label.Text, p.Y.Label.TextStyle.Font.Variant = y, "Sans"
	p.Legend.Top, p.Legend.Left, p.Legend.YOffs = true, true, -runNames
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = pale, pale
	p.Add(grid)
	high := target
	for _, c := range curves {
		named := false
		for i, run := range r.Runs {
			line, top, err := c.draw(run, r.start(i))
			if err != nil {
				return nil, err
			}
			if line == nil {
				continue
			}
			p.Add(line)
			if !named {
				p.Legend.Add(c.name, line)
			}
			named, high = true, max(high, top)
		}
	}
	end := r.start(len(r.Runs))
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end, 0, seriesHeadroom*high
	if target > 0 {
		line, err := straight(0, target, end, target)
		if err != nil {
			return nil, err
		}
		p.Add(line)
		p.Legend.Add("target", line)
	}
	return p, r.markRuns(p)
}

// start is where a run begins on the axis of time.
func (r *overloadReport) start(run int) float64 {
	at := 0.0
	for _, before := range r.Runs[:run] {
		at += before.Seconds
	}
	return at
}

// draw begins where there is something to see. It returns nil for a run that has
// nothing.
func (c curve) draw(run *overloadRun, start float64) (line *plotter.Line, top float64, err error) {
	var points plotter.XYs
	for _, point := range run.Series {
		y := c.at(point)
		if y == 0 && len(points) == 0 {
			continue
		}
		points, top = append(points, plotter.XY{X: start + point.Seconds, Y: y}), max(top, y)
	}
	if len(points) == 0 {
		return nil, 0, nil
	}
	if line, err = plotter.NewLine(points); err != nil {
		return nil, 0, err
	}
	line.Color, line.Width = c.color, 1.2
	return line, top, nil
}

// straight is a dashed line.
func straight(x1, y1, x2, y2 float64) (*plotter.Line, error) {
	line, err := plotter.NewLine(plotter.XYs{{X: x1, Y: y1}, {X: x2, Y: y2}})
	if err != nil {
		return nil, err
	}
	line.Color, line.Width, line.Dashes = grey, 0.8, []vg.Length{4, 3}
	return line, nil
}

// markRuns writes the names of the runs over their parts, with lines between.
func (r *overloadReport) markRuns(p *plot.Plot) error {
	names := plotter.XYLabels{}
	for i, run := range r.Runs {
		names.XYs = append(names.XYs, plotter.XY{X: r.start(i) + run.Seconds/2, Y: p.Y.Max})
		names.Labels = append(names.Labels, run.Name)
		if i == 0 {
			continue
		}
		border, err := straight(r.start(i), 0, r.start(i), p.Y.Max)
		if err != nil {
			return err
		}
		p.Add(border)
	}
	labels, err := plotter.NewLabels(names)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		style := &labels.TextStyle[i]
		style.Font.Variant, style.Font.Size, style.Color = "Sans", 9, grey
		style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	}
	p.Add(labels)
	return nil
}
