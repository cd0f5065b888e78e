package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// shrink reduces the size of a PNG: pages have few colours, so 256 of them look the same.
func shrink(raw []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	bounds := full.Bounds()
	counts := make(map[color.RGBA]int)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[rgba(full.At(x, y))]++
		}
	}
	palette := choose(counts)
	nearest := make(map[color.RGBA]uint8, len(counts))
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[rgba(full.At(x, y))])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, small)
	return out.Bytes(), err
}

func rgba(c color.Color) color.RGBA {
	r, g, b, _ := c.RGBA()
	return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
}

// choose selects the most frequent colours, except those close to a selected one: the edges of letters have many shades, while a
// chart or a sign has only a few pixels.
func choose(counts map[color.RGBA]int) color.Palette {
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	for limit := 0; ; limit += 4 {
		var palette color.Palette
		var taken []color.RGBA
		for _, c := range all {
			if !slices.ContainsFunc(taken, func(t color.RGBA) bool { return distance(t, c) < limit }) {
				palette, taken = append(palette, c), append(taken, c)
			}
			if len(taken) > 256 {
				break
			}
		}
		if len(taken) <= 256 {
			return palette
		}
	}
}

func distance(a, b color.RGBA) int {
	abs := func(n int) int { return max(n, -n) }
	return abs(int(a.R)-int(b.R)) + abs(int(a.G)-int(b.G)) + abs(int(a.B)-int(b.B))
}
