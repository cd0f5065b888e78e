package watch

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/routesrv/routesrv/source/cluster/decode"
	"github.com/routesrv/routesrv/source/cluster/lister"
)

// frames reads the events of a stream for the reflector.
type frames struct {
	k     *watched
	hash  *lister.Hasher
	media string
	in    *decode.Events
}

// next reads an event. The error is io.EOF if the stream ended between two events.
func (f *frames) next() (e watch.Event, err error) {
	// A panic in code that decodes what others wrote is a broken stream and not the end of the process.
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	event, err := f.in.Next()
	if err != nil {
		return watch.Event{}, err
	}
	if event.Status != nil {
		return watch.Event{Type: event.Type, Object: event.Status}, nil
	}
	o := &entry{revision: event.Revision}
	o.Namespace, o.Name, o.ResourceVersion = event.Namespace, event.Name, strconv.FormatUint(uint64(event.Revision), 10)
	if event.Loaded {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	if event.Type == watch.Added || event.Type == watch.Modified {
		f.fill(o, event.Object)
	}
	return watch.Event{Type: event.Type, Object: o}, nil
}

// fill decodes the object, unless it is known.
func (f *frames) fill(e *entry, raw []byte) {
	sum := f.hash.Sum(raw)
	known := false
	if e.item, known = f.k.known(e.ref(f.k.list.Kind), sum); known {
		return
	}
	e.item = f.k.list.Decode(raw, f.media, sum)
	if b := e.item.Bad; b != nil {
		b.Ref.Name, b.Ref.Namespace = e.Name, e.Namespace // both could be read
	}
	f.k.w.lister.Metrics.DecodedObjects.WithLabelValues(string(f.k.list.Kind)).Inc()
}
