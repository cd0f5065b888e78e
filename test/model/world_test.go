package model_test

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/routesrv/routesrv/kube"
)

// shops is the largest number of Ingresses, each with its own service. The first half is in the namespace big.
const shops = 48

func namespaceOf(shop int) string {
	if shop < shops/2 {
		return "big"
	}
	return "small"
}

// content is what a cluster has at one moment: the version of each Ingress, 0 if there is none, and the address of the pod of
// each service, empty if it has none.
type content struct {
	versions  [shops]int
	addresses [shops]string
}

// reading is a complete read, with what was known before it: the last address of each service.
type reading struct {
	content
	revision uint64
	last     [shops]string
}

// world is a cluster that a model changes, and the source that reads it. It is changed only between reads.
type world struct {
	content
	revision  uint64
	ingresses [shops]*kube.Ingress
	services  [shops]*kube.Service
	slices    [shops]*kube.EndpointSlice

	broken  bool // reads fail
	partial bool // a planted mistake: a failed read returns a partial result
	pods    int
	reads   []reading // all complete reads
}

func newWorld() *world {
	w := &world{revision: 100}
	for i := range shops {
		w.services[i] = &kube.Service{Namespace: namespaceOf(i), Name: name(i), Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}}}
		w.setPod(i, w.newAddress())
		if i%24 < 21 { // 42 of 48
			w.setIngress(i, 1)
		}
	}
	return w
}

func name(shop int) string { return fmt.Sprintf("s%02d", shop) }

func (w *world) newAddress() string {
	w.pods++
	return fmt.Sprintf("10.2.%d.%d", w.pods/250, w.pods%250+1)
}

// setIngress sets the version of an Ingress; 0 deletes it.
func (w *world) setIngress(shop, version int) {
	if w.versions[shop] == version {
		return
	}
	w.revision++
	if w.versions[shop], w.ingresses[shop] = version, nil; version == 0 {
		return
	}
	w.ingresses[shop] = &kube.Ingress{
		Meta: kube.Meta{Namespace: namespaceOf(shop), Name: name(shop), Annotations: kube.PairsOf(map[string]string{
			"zalando.org/skipper-predicate": `QueryParam("v", "` + strconv.Itoa(version) + `")`,
		})},
		Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{Host: name(shop) + ".example.org", HTTP: true, Paths: []kube.IngressPath{{
			Path: "/", PathType: "Prefix", Backend: &kube.IngressBackend{Service: name(shop), PortNumber: 80},
		}}}}},
	}
}

// setPod sets the pod of a service; an empty address removes it.
func (w *world) setPod(shop int, address string) {
	if w.slices[shop] != nil && w.addresses[shop] == address {
		return
	}
	w.revision++
	w.addresses[shop] = address
	s := &kube.EndpointSlice{
		Namespace: namespaceOf(shop), Name: name(shop) + "-1", Service: name(shop), Ports: []kube.EndpointPort{{Port: 8080, Protocol: "TCP"}},
	}
	if address != "" {
		s.Endpoints = []kube.SliceEndpoint{{Address: address, Ready: true}}
	}
	w.slices[shop] = s
}

// read reads the cluster.
func (w *world) read() (*kube.Snapshot, error) {
	s := &kube.Snapshot{Revision: kube.Revision(w.revision), Newest: kube.Revision(w.revision)}
	for i := range shops {
		if w.ingresses[i] != nil && !(w.broken && i%3 == 0) {
			s.Ingresses = append(s.Ingresses, w.ingresses[i])
		}
	}
	s.Services, s.EndpointSlices = w.services[:], append(s.EndpointSlices, w.slices[:]...)
	switch {
	case w.broken && w.partial:
		return s, nil
	case w.broken:
		return nil, errors.New("list of ingresses: connection reset")
	}
	r := reading{content: w.content, revision: w.revision}
	if n := len(w.reads); n > 0 {
		r.last = w.reads[n-1].last
	}
	for i, a := range w.addresses {
		if a != "" {
			r.last[i] = a
		}
	}
	w.reads = append(w.reads, r)
	return s, nil
}

// newest returns the last complete read.
func (w *world) newest() *reading { return &w.reads[len(w.reads)-1] }

// madeOf returns what is wrong if the table was not made of complete reads: each Ingress of some read, because those of an accident are
// kept one by one; the backends of one read, where services that lost all endpoints may have their last ones.
func (w *world) madeOf(s *seen) string {
	has := contentOf(s)
	backends := false
	var shown [shops]bool
	for i := len(w.reads) - 1; i >= 0; i-- {
		r := &w.reads[i]
		backends = backends || r.gave(&has)
		for shop, version := range r.versions {
			shown[shop] = shown[shop] || version == has.versions[shop]
		}
	}
	for shop, is := range shown {
		if !is {
			return fmt.Sprintf("no read has shown version %d of %s", has.versions[shop], name(shop))
		}
	}
	switch {
	case !backends:
		return fmt.Sprintf("no read has shown the backends %v", has.addresses)
	}
	return ""
}

// contentOf derives the content of the cluster from the routes of a table.
func contentOf(s *seen) (c content) {
	for _, r := range s.routes {
		if r.shop >= 0 {
			c.versions[r.shop], c.addresses[r.shop] = r.version, r.address
		}
	}
	return c
}

// served returns the part of the content that shows in a table: a service without an Ingress does not.
func (c content) served() content {
	for i, version := range c.versions {
		if version == 0 {
			c.addresses[i] = ""
		}
	}
	return c
}

// losesNothing reports whether the next content has everything that the served one has.
func losesNothing(served, next content) bool {
	for i, version := range served.versions {
		if version != 0 && (next.versions[i] == 0 || served.addresses[i] != "" && next.addresses[i] == "") {
			return false
		}
	}
	return true
}

// count returns the number of Ingresses.
func (c content) count() (n int) {
	for _, version := range c.versions {
		n += min(version, 1)
	}
	return n
}

// gave reports whether the addresses of the existing routes can come from this read.
func (r *reading) gave(has *content) bool {
	for i, version := range has.versions {
		switch a := has.addresses[i]; {
		case version == 0 || a == r.addresses[i]:
		case r.addresses[i] == "" && a == r.last[i]:
		default:
			return false
		}
	}
	return true
}
