package main

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that people with any colour vision tell apart (Okabe and Ito).
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	pale   = color.RGBA{0xe6, 0xe6, 0xe6, 0xff}
	grey   = color.RGBA{0x55, 0x55, 0x55, 0xff}
)

// dots are the marks of one figure or product, one for each row.
type dots struct {
	name  string
	color color.Color
	times []float64 // how many times better than what 1 stands for; NaN for no mark
	apart []bool    // false draws a ring: not told apart
}

func (d *dots) add(times float64, apart bool) {
	d.times, d.apart = append(d.times, times), append(d.apart, apart)
}

// plotRivals draws how many times better than the better rival weir is, in the
// first figure and in CPU, so that right is always better.
func (r *report) plotRivals(w io.Writer) error {
	main, cpu := dots{name: "first figure: throughput, rate, latency or memory", color: blue}, dots{name: "work for each CPU second of the proxy", color: orange}
	var rows []string
	for _, sc := range r.Scenarios {
		rows = append(rows, sc.Name)
		main.add(sc.versusRival(sc.Metrics[0]))
		cpu.add(sc.versusRival(sc.metric("cpu")))
	}
	return drawDots(w, "weir against the better of nginx and HAProxy", "times better than the better rival (ring: not told apart)", rows, []dots{main, cpu})
}

// plotDirect draws each product's throughput or rate against no proxy at all.
func (r *report) plotDirect(w io.Writer) error {
	all := []dots{{name: "nginx", color: green}, {name: "haproxy", color: orange}, {name: weir, color: blue}}
	var rows []string
	for _, sc := range r.Scenarios {
		m := sc.Metrics[0]
		base := sc.figure(direct, m)
		if m.Lower || !base.ok() {
			continue
		}
		rows = append(rows, sc.Name)
		for i := range all {
			all[i].add(ratio(sc.figure(all[i].name, m).median, base.median), true)
		}
	}
	return drawDots(w, "throughput or rate through each proxy", "times that of a direct connection", rows, all)
}

// versusRival is how many times better weir is than the better rival, and
// whether the runs tell the two apart.
func (r *result) versusRival(m metric) (times float64, apart bool) {
	own, rival := r.figure(weir, m), r.bestRival(m)
	if m.Lower {
		return ratio(rival.median, own.median), own.apart(rival)
	}
	return ratio(own.median, rival.median), own.apart(rival)
}

// metric returns the one with a name; one without a name has no values.
func (r *result) metric(name string) metric {
	for _, m := range r.Metrics {
		if m.Name == name {
			return m
		}
	}
	return metric{}
}

// Lengths are in points.
const (
	plotWidth  = 600 // a README shows about as much
	plotMargin = 6
	rowHeight  = 15
	legendRows = 1.1 // room above the rows for each line of the legend
	dotRadius  = 3
	// farthest from 1 that the axis goes, in powers of 2. What lies beyond is
	// drawn at the edge with its number, so that it does not squeeze the rest.
	farthest = 2.0
)

// drawDots writes a plot as SVG: a row for each scenario, from the top, and a
// logarithmic axis with a line at 1.
func drawDots(w io.Writer, title, axis string, rows []string, all []dots) error {
	p := newPlot(title, axis)
	p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0
	p.Legend.Top, p.Legend.Left = true, true

	headroom := legendRows * float64(len(all))
	p.Y.Min, p.Y.Max = 0, float64(len(rows))+headroom
	rowTicks := make(plot.ConstantTicks, len(rows))
	for i, name := range rows {
		rowTicks[i] = plot.Tick{Value: rowMiddle(i, len(rows)), Label: name}
	}
	p.Y.Tick.Marker = rowTicks
	ticks := timesTicks(all)
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = ticks[0].Value, ticks[len(ticks)-1].Value

	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = pale, pale
	one, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: 0, Y: float64(len(rows))}})
	if err != nil {
		return err
	}
	one.Color, one.Width = grey, 1
	p.Add(grid, one)
	for i, d := range all {
		// Marks of one row stand a little above each other.
		shift := 0.35 * (float64(len(all)-1)/2 - float64(i))
		marks, numbers, err := d.draw(len(rows), shift)
		if err != nil {
			return err
		}
		if marks != nil {
			p.Add(marks, numbers)
			p.Legend.Add(d.name, marks)
		}
	}
	return writeSVG(w, plotWidth, vg.Length(80+rowHeight*(float64(len(rows))+headroom)), p.Draw)
}

func newPlot(title, axis string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, axis
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	p.Title.Padding, p.X.Label.Padding, p.Legend.Padding = 8, 4, 2
	p.Legend.TextStyle.Font.Size = p.X.Tick.Label.Font.Size
	return p
}

// rowMiddle is where row i of n stands on the axis that points up.
func rowMiddle(i, n int) float64 { return float64(n-i) - 0.5 }

// draw returns the marks and the numbers of those that are at the edge, or nil
// when no row has a mark.
func (d dots) draw(rows int, shift float64) (*plotter.Scatter, *plotter.Labels, error) {
	var at, edge plotter.XYs
	var apart []bool
	var numbers []string
	for i, times := range d.times {
		x, ok := onAxis(times)
		if !ok {
			continue
		}
		xy := plotter.XY{X: x, Y: rowMiddle(i, rows) + shift}
		at, apart = append(at, xy), append(apart, d.apart[i])
		if x != math.Log2(times) {
			edge, numbers = append(edge, xy), append(numbers, formatTimes(times))
		}
	}
	if len(at) == 0 {
		return nil, nil, nil
	}
	marks, err := plotter.NewScatter(at)
	if err != nil {
		return nil, nil, err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: d.color, Radius: dotRadius, Shape: draw.CircleGlyph{}}
	marks.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		style := marks.GlyphStyle
		if !apart[i] {
			style.Shape = ring{}
		}
		return style
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: edge, Labels: numbers})
	if err != nil {
		return nil, nil, err
	}
	for i := range labels.TextStyle {
		style := &labels.TextStyle[i]
		style.Font.Variant, style.Font.Size, style.Color, style.YAlign = "Sans", 7, d.color, draw.YCenter
		style.XAlign = draw.XRight
		labels.XYs[i].X -= 0.04
		if edge[i].X < 0 {
			style.XAlign = draw.XLeft
			labels.XYs[i].X += 0.08
		}
	}
	return marks, labels, nil
}

// onAxis is where a mark stands on the axis; there is none for NaN, zero and
// what nothing can be compared with.
func onAxis(times float64) (x float64, ok bool) {
	x = math.Log2(times)
	return max(-farthest, min(farthest, x)), !math.IsNaN(x) && !math.IsInf(x, 0)
}

// ring is draw.RingGlyph with a line that can be seen.
type ring struct{}

func (ring) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: 1})
	var p vg.Path
	p.Move(vg.Point{X: at.X + style.Radius, Y: at.Y})
	p.Arc(at, style.Radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

// timesTicks are the powers of 2 around all marks and the halves between them,
// placed by their logarithm.
func timesTicks(all []dots) plot.ConstantTicks {
	low, high := -1.0, 1.0
	for _, d := range all {
		for _, times := range d.times {
			if x, ok := onAxis(times); ok {
				low, high = min(low, math.Floor(x)), max(high, math.Ceil(x))
			}
		}
	}
	var ticks plot.ConstantTicks
	for x := low; x <= high; x++ {
		ticks = append(ticks, timesTick(math.Exp2(x)))
		if x < high {
			ticks = append(ticks, timesTick(1.5*math.Exp2(x)))
		}
	}
	return ticks
}

func timesTick(times float64) plot.Tick {
	return plot.Tick{Value: math.Log2(times), Label: formatTimes(times)}
}

func formatTimes(times float64) string { return strconv.FormatFloat(times, 'g', 3, 64) }

// writeSVG names more fonts than the plot's own, which few readers have; Arial
// has the same widths.
func writeSVG(w io.Writer, width, height vg.Length, paint func(draw.Canvas)) error {
	canvas := vgsvg.New(width, height)
	paint(draw.Crop(draw.New(canvas), plotMargin, -plotMargin, plotMargin, -plotMargin))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}
