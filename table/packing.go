package table

import (
	"slices"
	"time"
)

// packing holds the blocks that a packing [Decoder] has finished. They precede its routes, and are final as long as the document
// is canonical.
type packing struct {
	blocks []*Block
	base   []*Block // the blocks of the base that have not been passed yet
	packer packer
}

// Pack makes the decoder pack the blocks of its table ([List.Packed]) while the document arrives, so the whole text is never in
// memory. Call it before the first Write.
func (d *Decoder) Pack() {
	d.packing = &packing{}
	if d.base != nil {
		d.packing.base = d.base.list.blocks
	}
}

// pack turns the routes into a block. The error is that of New.
func (d *Decoder) pack() error {
	if len(d.routes) == 0 {
		return nil
	}
	if err := checkAll(d.routes); err != nil {
		return err
	}
	d.packing.add(d.packing.packer.pack(newBlock(d.routes)))
	clear(d.routes)
	d.routes = d.routes[:0]
	return nil
}

// add appends the block, or the block of the base with the same routes.
func (p *packing) add(b *Block) {
	for len(p.base) > 0 && p.base[0].first() < b.first() {
		p.base = p.base[1:]
	}
	if len(p.base) > 0 && p.base[0].packed != nil && p.base[0].equal(b) {
		b = p.base[0]
	}
	p.blocks = append(p.blocks, b)
}

// packedTable returns the table of a packing decoder.
func (d *Decoder) packedTable(revision uint64, at time.Time) (*Table, error) {
	if !d.canonical {
		var all []*Route
		for _, b := range d.packing.blocks {
			all = append(all, b.Routes()...)
		}
		t, err := d.printedUsable(slices.Concat(all, d.routes), revision, at)
		if err != nil {
			return nil, err
		}
		return Of(t.list.Packed(), revision, at), nil
	}
	if err := d.pack(); err != nil {
		return nil, err
	}
	return d.base.Next(newList(d.packing.blocks, true), revision, at), nil
}
