package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// View returns all clients of this replica only, sorted by id.
func (r *Registry) View() *View {
	at := r.cfg.Now()
	now := at.UnixNano()
	r.mu.Lock()
	r.look()
	v := &View{Time: at, Table: r.served(), Publishes: r.publishes(), Clients: make([]Client, 0, len(r.clients))}
	keys := make([]string, 0, len(r.clients))
	for k, c := range r.clients {
		if c.counts() {
			keys = append(keys, k)
		}
	}
	v.Replicas = []Replica{{
		Name: r.cfg.Name, Instance: r.instance, Self: true, Relay: r.cfg.Relay, Table: v.Table, Clients: len(keys), Full: r.full,
	}}
	r.mu.Unlock()
	for some := range slices.Chunk(keys, showAtOnce) {
		r.showSome(v, some, now)
	}
	slices.SortFunc(v.Clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	v.finish(Query{})
	return v
}

// showAtOnce is how many clients are copied without releasing the lock, which requests of clients also need.
const showAtOnce = 256

// showSome adds some clients to a view, except those removed meanwhile.
func (r *Registry) showSome(v *View, keys []string, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		c := r.clients[k]
		if c == nil {
			continue
		}
		one := r.show(c, now)
		v.Clients = append(v.Clients, one)
		if n, reports := r.relays[k]; reports {
			v.Relays = append(v.Relays, Relay{ID: one.ID, Counts: n, Total: n.Total(), Heard: timeOf(c.report.at), State: one.State})
		}
	}
}

// served returns the served table, or nil before the first one.
func (r *Registry) served() *Table {
	last := r.versions.last()
	if last.order == 0 {
		return nil
	}
	return &Table{Digest: last.Digest, Revision: last.Revision, Since: timeOf(last.at)}
}

// publishes returns the last tables, newest first.
func (r *Registry) publishes() []Publish {
	list := r.versions.list
	shown := make([]Publish, 0, min(len(list), shownPublishes))
	for i := len(list) - 1; i >= max(0, len(list)-shownPublishes); i-- {
		v := &list[i]
		p := Publish{Digest: v.Digest, Revision: v.Revision, Time: timeOf(v.at), Routes: v.Routes, Bytes: v.Bytes}
		if v.Took >= 0 {
			took := v.Took.Seconds()
			p.Took = &took
		}
		for share, to := range []**float64{&p.Half, &p.Most, &p.All} {
			if took := v.took[share]; took != notYet {
				s := took.Seconds()
				*to = &s
			}
		}
		if h := r.tables[v.Digest]; h != nil && h.order == v.order {
			p.Holders = h.holders
		}
		shown = append(shown, p)
	}
	return shown
}

// show returns the public form of a client.
func (r *Registry) show(c *client, now int64) Client {
	one := Client{
		ID: c.key, Kind: kinds[c.kind], Node: c.node, Zone: text(c.zone), Version: text(c.version), Mode: text(c.mode),
		Address: c.address.String(), Replica: r.cfg.Name, Stream: c.streams > 0, Canary: c.canary,
		FirstHeard: timeOf(c.first), LastHeard: timeOf(c.heard), IntervalSeconds: c.pace().Seconds(),
	}
	if c.pod {
		one.Pod = c.key
	}
	if c.inferred() {
		agent := printable(c.key[agentAt:], maxAgent)
		one.ID, one.Version, one.Inferred = strings.TrimSpace(one.Address+" "+agent), agent, true
	}
	if c.holds != nil {
		one.Holds = &Table{Digest: c.holds.digest, Revision: c.revision, Since: timeOf(c.since)}
	}
	var behind time.Duration
	one.State, one.BehindVersions, behind = r.judge(c, now)
	if one.State == Silent {
		one.Otherwise = r.standing(c, one.BehindVersions)
	}
	one.BehindSeconds = behind.Seconds()
	if p := c.report; p != nil {
		one.Applied, one.Reported = applieds[c.applied], timeOf(p.at)
		if p.figures != nil {
			one.Figures = p.figures.show()
		}
		one.FiguresError, one.Suspects, one.Pre = p.said().unread, c.showSuspects(now), p.said().pre
		if one.State == Rejected || one.Otherwise == Rejected {
			one.Reason = p.said().rejected
		}
		if p.proven != nil {
			one.Proven = &Table{Digest: p.proven.digest}
		}
		if p.fetched != nil {
			one.Fetched = &Table{Digest: p.fetched.digest, Since: timeOf(p.took)}
		}
	}
	return one
}

func text(h unique.Handle[string]) string {
	if h == (unique.Handle[string]{}) {
		return ""
	}
	return h.Value()
}

func timeOf(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// Counts returns how many clients are in each state: the summary that a relay reports.
func (r *Registry) Counts() Counts {
	now := r.cfg.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	var n Counts
	for _, c := range r.clients {
		if c.counts() {
			state, _, _ := r.judge(c, now)
			n.add(state)
		}
	}
	return n
}

// Share returns how many of the live clients that have named a table hold the version with the number or a later one, and how
// many such clients there are.
func (r *Registry) Share(order uint64) (holders, live int) {
	now := r.cfg.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	for _, c := range r.clients {
		if c.holds == nil || c.silent(now) || !c.counts() {
			continue
		}
		live++
		if c.reached(order) {
			holders++
		}
	}
	return holders, live
}

// Metrics are the series of a Registry. No label value comes from clients.
type Metrics struct {
	clients  *prometheus.GaugeVec
	proxies  prometheus.Gauge
	refusing prometheus.Gauge
	dying    prometheus.Gauge
	lag      prometheus.Gauge
	duration *prometheus.HistogramVec
	reports  *prometheus.CounterVec
	refused  prometheus.Counter
}

// shareNames are the label values of shares.
var shareNames = [len(shares)]string{"0.5", "0.99", "1"}

// NewMetrics creates the series and registers them; nil registers nowhere.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	made := series.In(reg)
	return &Metrics{
		clients:  made.Gauges("routesrv_clients", "Clients of this replica: current, behind, rejected (unless dying) or silent.", "state", series.Texts(States())...),
		proxies:  made.Gauge("routesrv_live_proxies", "Addresses of clients without dataplane-client that asked within three of their intervals."),
		refusing: made.Gauge("routesrv_clients_refusing_routes", "Live clients whose proxy refused routes of its last table."),
		dying:    made.Gauge("routesrv_clients_dying", "Live clients with a proxy that crashed because of a table, until they recover."),
		lag: made.Gauge("routesrv_fleet_behind_seconds",
			"How long 99 percent of the addresses of clients have been without the newest table, at most; 0 if they hold it."),
		duration: made.Histograms("routesrv_fleet_publish_seconds", "Time until a share of the addresses of clients held a new table: 0.5, 0.99 or 1.",
			"share", []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}, shareNames[:]...),
		reports: made.Counters("routesrv_client_reports_total", "Reports of clients, by result: taken or refused.", "result", "taken", "refused"),
		refused: made.Counter("routesrv_clients_refused_total", "Requests of clients outside of the fleet, because it is full or too many come from one address."),
	}
}

func (m *Metrics) show(c Counts, proxies, refusing, dying int, lag time.Duration) {
	m.proxies.Set(float64(proxies))
	m.dying.Set(float64(dying))
	m.refusing.Set(float64(refusing))
	for _, s := range States() {
		m.clients.WithLabelValues(string(s)).Set(float64(c.Of(s)))
	}
	m.lag.Set(lag.Seconds())
}

func (m *Metrics) took(share int, d time.Duration) {
	m.duration.WithLabelValues(shareNames[share]).Observe(d.Seconds())
}
