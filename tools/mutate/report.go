package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
)

// report holds the outcomes for a package.
type report struct {
	name       string
	all        int // mutants of the package
	equivalent int // not tried

	mu        sync.Mutex // guards the fields below while mutants are tried
	counts    map[outcome]int
	functions map[string]*tally
	survivors []*mutant
}

// tally is the score of a function.
type tally struct{ killed, tried int }

func (r *report) add(m *mutant, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.functions = make(map[outcome]int), make(map[string]*tally)
	}
	r.counts[o]++
	if o == notBuilt {
		return
	}
	name := m.File + " " + m.Func
	f := r.functions[name]
	if f == nil {
		f = new(tally)
		r.functions[name] = f
	}
	f.tried++
	if o == survived {
		r.survivors = append(r.survivors, m)
	} else {
		f.killed++
	}
}

// score returns the percentage of killed mutants; 100 if there were none.
func (r *report) score() float64 {
	dead := r.counts[killed] + r.counts[timedOut]
	if tried := dead + r.counts[survived]; tried > 0 {
		return 100 * float64(dead) / float64(tried)
	}
	return 100
}

// write prints the score, and the functions with survivors.
func (r *report) write(w io.Writer) {
	dead := r.counts[killed] + r.counts[timedOut]
	fmt.Fprintf(w, "%s: %.1f %%, %d of %d killed (%d by timeout); %d did not build, %d are equivalent; the package has %d\n",
		r.name, r.score(), dead, dead+r.counts[survived], r.counts[timedOut], r.counts[notBuilt], r.equivalent, r.all)
	slices.SortFunc(r.survivors, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	last := ""
	for _, m := range r.survivors {
		if name := m.File + " " + m.Func; name != last {
			f := r.functions[name]
			fmt.Fprintf(w, "  %s: %d of %d killed\n", name, f.killed, f.tried)
			last = name
		}
		fmt.Fprintf(w, "    %s\n", describe(m))
	}
}

// describe returns a mutant on one line: its position and the change.
func describe(m *mutant) string {
	return fmt.Sprintf("%s:%d: %s -> %s", m.File, m.line, m.Old, m.New)
}
