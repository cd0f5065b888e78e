package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Faults of processes.
const (
	Kill      = "kill"      // SIGKILL, and a restart after For
	Freeze    = "freeze"    // SIGSTOP, and SIGCONT after For
	Partition = "partition" // no data passes on any link of the member
	NoFiles   = "no-files"  // the process may open no more descriptors
	DiskFull  = "disk-full"
	ReadOnly  = "disk-read-only"
	Restore   = "revision-reset" // the API is restored from a backup taken Delay ago; the link is "api"
)

// Points at which a process is killed.
const (
	AtOnce      = ""
	WhileWrites = "while-writing" // the last-known-good file
	OnPublish   = "on-publish"    // between swapping a table and the first publication to a client
	InStream    = "in-stream"     // in the middle of an event
	HoldBegins  = "hold-begins"
	HoldEnds    = "hold-ends"
)

// Points returns all points of a kill.
func Points() []string {
	return []string{AtOnce, WhileWrites, OnPublish, InStream, HoldBegins, HoldEnds}
}

// Faults of connections, by the kinds of members at their ends. The names are those of packages faultproxy and world.
var (
	anyLink   = []string{"refuse", "reset", "delay", "hang", "stall", "drip", "cut", "half-close", "duplicate", "status", "html", "corrupt", "swap"}
	apiOnly   = []string{"list-empty", "list-half", "list-short", "list-stale", "list-other", "api-status", "discovery-flaps", "discovery-status"}
	watchOnly = []string{"watch-silent", "watch-gone", "watch-cut", "no-bookmarks"}
	process   = []string{Kill, Kill, Kill, Freeze, Partition, NoFiles, DiskFull, ReadOnly}

	statuses    = []int{401, 403, 404, 409, 410, 429, 500, 503, 504}
	apiStatuses = []int{401, 403, 404, 409, 410, 429, 500, 503, 504}
	apiKinds    = []string{"", "", "ingresses", "routegroups", "services", "endpointslices"}
)

// Names returns the names of all faults that a plan may have.
func Names() []string {
	all := slices.Concat(anyLink, apiOnly, watchOnly, process, []string{Restore})
	slices.Sort(all)
	return slices.Compact(all)
}

// weather generates the faults. Most links belong to clients, which matter least, so the kind of link is chosen first. The first
// and the last two seconds are quiet, and so are four seconds around a restore of the API: a server that does not read before
// revisions have caught up cannot detect the restore.
func (p *Plan) weather(rng *rand.Rand, s Size) {
	var api, middle, client, processes []string
	for _, m := range p.Members {
		if m.Kind == history.Server || m.Kind == history.Relay || m.Kind == history.Sidecar {
			processes = append(processes, m.Name)
		}
	}
	for _, l := range p.Links() {
		asker, asked, _ := strings.Cut(l, ">")
		m, _ := p.Member(asker)
		switch {
		case asked == APIName:
			api = append(api, l)
		case strings.HasPrefix(asker, "p-"): // a proxy and its sidecar are one pod
		case m.Kind == history.Relay || m.Kind == history.Sidecar || m.Kind == history.Server:
			middle = append(middle, l)
		default:
			client = append(client, l)
		}
	}
	var restores []time.Duration
	for at := time.Duration(6+rng.IntN(12)) * time.Second; len(s.Lasting) == 0 && at < p.Storm-6*time.Second; at += time.Duration(20+rng.IntN(20)) * time.Second {
		restores = append(restores, at)
		p.Faults = append(p.Faults, Fault{From: at, Name: Restore, Link: APIName, Delay: time.Duration(2+rng.IntN(4)) * time.Second})
	}
	struck := make(map[string]time.Duration) // until when a process has a fault
	for at := time.Second; at < p.Storm-2*time.Second; at += time.Duration(rng.Int64N(int64(2*s.Every))) + time.Millisecond {
		f := Fault{From: at, For: time.Duration(100+rng.IntN(2000)) * time.Millisecond}
		pick := func(from []string) string {
			if len(from) == 0 {
				return ""
			}
			return from[rng.IntN(len(from))]
		}
		switch n := rng.IntN(100); {
		case n < 25:
			f.Link = pick(api)
			f.Name = pick(slices.Concat(anyLink, apiOnly, apiOnly))
			if m, _ := p.Member(strings.TrimSuffix(f.Link, ">"+APIName)); m.Transport == "watch" && rng.IntN(3) == 0 {
				f.Name = pick(watchOnly)
			}
		case n < 50:
			f.Link, f.Name = pick(middle), pick(anyLink)
		case n < 75:
			f.Link, f.Name = pick(client), pick(anyLink)
		default:
			f.Link, f.Name = pick(processes), pick(process)
			if slices.Contains(s.Lasting, f.Link) && f.Name == Kill {
				f.Name = Freeze
			}
			if f.Name == Kill {
				f.Point = Points()[rng.IntN(len(Points()))]
				if f.Point == HoldBegins || f.Point == HoldEnds {
					f.For += 6 * time.Second // holds are rare
				}
			}
		}
		p.details(rng, &f)
		if f.Link == "" || at+f.For > p.Storm-time.Second || nearRestore(f, restores) {
			continue
		}
		if !strings.Contains(f.Link, ">") {
			if struck[f.Link] > at {
				continue
			}
			struck[f.Link] = at + f.For + 500*time.Millisecond
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.From, b.From) })
}

func nearRestore(f Fault, restores []time.Duration) bool {
	return slices.ContainsFunc(restores, func(at time.Duration) bool {
		return f.From < at+4*time.Second && f.From+f.For > at-2*time.Second
	})
}

// details sets the parameters of a fault.
func (p *Plan) details(rng *rand.Rand, f *Fault) {
	switch f.Name {
	case "delay":
		f.Delay = time.Duration(50+rng.IntN(1500)) * time.Millisecond
	case "drip":
		f.Bytes, f.Delay = 64<<rng.IntN(6), time.Duration(1+rng.IntN(20))*time.Millisecond
	case "cut", "half-close":
		if rng.IntN(2) == 0 {
			f.Bytes = 1 + rng.IntN(4000)
		}
	case "status":
		f.Status = statuses[rng.IntN(len(statuses))]
	case "api-status", "discovery-status":
		f.Status = apiStatuses[rng.IntN(len(apiStatuses))]
	}
	switch f.Name {
	case "list-empty", "list-half", "list-short", "list-stale", "list-other", "api-status":
		f.Path = apiKinds[rng.IntN(len(apiKinds))]
	}
	if rng.IntN(3) == 0 {
		f.Share = 0.2 + 0.6*rng.Float64()
	}
}
