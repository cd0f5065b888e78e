package robustness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names of the faults of the API itself.
const (
	ListEmpty      = "list-empty"       // 200 without items, from the cache; a consistent list is correct
	ListHalf       = "list-half"        // most items are missing, from the cache; a consistent list is correct
	ListShort      = "list-short"       // the body ends in the middle without an error
	ListStale      = "list-stale"       // the cache is seconds behind, and does not answer 504
	ListOther      = "list-other"       // 200 with an object that is not a list
	APIStatus      = "api-status"       // an API error, for lists and watches
	DiscoveryFlaps = "discovery-flaps"  // every other answer says that RouteGroups do not exist
	DiscoveryFails = "discovery-status" // an API error
	WatchSilent    = "watch-silent"     // watches stay open and send nothing
	WatchGone      = "watch-gone"       // watches begin with the error that the revision is too old
	WatchCut       = "watch-cut"        // watches end in the middle of an event
	NoBookmarks    = "no-bookmarks"     // watches send none
)

// APIFaults returns the names of the faults that the API can show to one member.
func APIFaults() []string {
	return []string{
		ListEmpty, ListHalf, ListShort, ListStale, ListOther, APIStatus, DiscoveryFlaps, DiscoveryFails,
		WatchSilent, WatchGone, WatchCut, NoBookmarks,
	}
}

// beginsWithAWatch reports whether a fault affects only watches that begin while it is on, so that open ones must end.
func beginsWithAWatch(fault string) bool {
	return slices.Contains([]string{WatchCut, WatchGone, NoBookmarks}, fault)
}

// APIFault is a fault that the API shows to one member.
type APIFault struct {
	Name   string
	Status int    // for APIStatus and DiscoveryFails
	Path   string // text that affected paths contain, such as "ingresses"; empty for all
}

type noteKey struct{}

// note describes a request.
type note struct {
	member string
	fault  string
}

func noteOf(ctx context.Context) *note {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return &note{}
	}
	return n
}

// listeners serve the API, with one listener for each member. The zero value has none.
type listeners struct {
	servers []*http.Server
	serving sync.WaitGroup
}

// listen serves h on a port of an address, and returns the base URL. Requests carry a note about the member.
func (l *listeners) listen(member, ip string, h http.Handler) (string, error) {
	on, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return "", fmt.Errorf("API for %s: %w", member, err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), noteKey{}, &note{member: member})))
	})}
	l.servers = append(l.servers, s)
	l.serving.Go(func() {
		if err := s.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("API for %s: %v", member, err)) // nothing else ends it
		}
	})
	return "http://" + on.Addr().String(), nil
}

func (l *listeners) close() {
	for _, s := range l.servers {
		_ = s.Close()
	}
	l.serving.Wait()
}

// injected holds the active faults. The zero value has none. It is safe for concurrent use.
type injected struct {
	mu       sync.Mutex
	byMember map[string][]*APIFault
	flaps    int
}

// add makes a member meet a fault until remove is called.
func (i *injected) add(member string, f APIFault) (remove func(), err error) {
	if !slices.Contains(APIFaults(), f.Name) {
		return nil, fmt.Errorf("the API has no fault %q", f.Name)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byMember == nil {
		i.byMember = make(map[string][]*APIFault)
	}
	i.byMember[member] = append(i.byMember[member], &f)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.byMember[member] = slices.DeleteFunc(i.byMember[member], func(other *APIFault) bool { return other == &f })
	}, nil
}

// now returns the faults for a request of a member.
func (i *injected) now(member, path string) []APIFault {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []APIFault
	for _, f := range i.byMember[member] {
		if strings.Contains(path, f.Path) {
			out = append(out, *f)
		}
	}
	return out
}

// has reports whether a fault is on for a member.
func (i *injected) has(member, fault string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.ContainsFunc(i.byMember[member], func(f *APIFault) bool { return f.Name == fault })
}

// flap returns true every other time.
func (i *injected) flap() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.flaps++
	return i.flaps%2 == 0
}
