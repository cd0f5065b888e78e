package watch_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/internal/scale"
	"github.com/routesrv/routesrv/internal/source/cluster"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/clustertest"
	"github.com/routesrv/routesrv/internal/source/cluster/watch"
	"github.com/routesrv/routesrv/kube"
)

// BenchmarkFirstRead compares how a source gets everything for the first time: by lists, or by watches that begin with it.
// The server only writes bytes that are ready. GOGC is that of the benchmark: the binary runs with 25.
func BenchmarkFirstRead(b *testing.B) {
	for _, factor := range []float64{0.1, 1} {
		handler := scale.New(factor).Handler()
		handler.Warm(true, true)
		lists := kubetest.Serve(b, handler)
		streams := kubetest.Serve(b, newStreams(b, handler, lists))
		b.Run(fmt.Sprintf("poll/%gx", factor), func(b *testing.B) {
			benchmarkFirst(b, func() (read func() error, stop func()) {
				s, err := cluster.New(cluster.Config{URL: lists, EndpointSlices: true})
				if err != nil {
					b.Fatal(err)
				}
				return func() error { _, err := s.Read(b.Context(), kube.ReadOptions{}); return err }, func() {}
			})
		})
		b.Run(fmt.Sprintf("watch/%gx", factor), func(b *testing.B) {
			benchmarkFirst(b, func() (read func() error, stop func()) {
				w, err := watch.New(watch.Config{Config: cluster.Config{URL: streams, EndpointSlices: true}})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				return func() error { _, err := w.Read(b.Context(), kube.ReadOptions{}); return err }, func() { cancel(); <-done }
			})
		})
	}
}

func benchmarkFirst(b *testing.B, open func() (read func() error, stop func())) {
	b.ReportAllocs()
	var used time.Duration
	var before, after runtime.MemStats
	cycles := uint32(0)
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		from := clustertest.CPUTime(b)
		b.StartTimer()
		read, stop := open()
		if err := read(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		used += clustertest.CPUTime(b) - from
		runtime.ReadMemStats(&after)
		cycles += after.NumGC - before.NumGC
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(cycles)/float64(b.N), "GCs/op")
}

// streams answers watches that begin with everything, from bytes that are ready, and hands on everything else.
type streams struct {
	http.Handler
	bodies map[string][]byte // by path
}

func newStreams(b *testing.B, h http.Handler, url string) http.Handler {
	b.Helper()
	s := &streams{h, make(map[string][]byte)}
	for _, path := range []string{clustertest.Ingresses, clustertest.Services, clustertest.EndpointSlices} {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, url+path, http.NoBody)
		r.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Body)
		if err != nil {
			b.Fatal(err)
		}
		s.bodies[path] = framesOf(b, path, body)
	}
	return s
}

// framesOf makes the beginning of a watch of a list in protobuf.
func framesOf(b *testing.B, path string, list []byte) (frames []byte) {
	b.Helper()
	var unknown k8sruntime.Unknown
	if err := unknown.Unmarshal(list[4:]); err != nil {
		b.Fatal(err)
	}
	add := func(event string, object []byte) {
		unknown := k8sruntime.Unknown{
			TypeMeta: k8sruntime.TypeMeta{APIVersion: unknown.APIVersion, Kind: clustertest.KindOf(path)}, Raw: object,
		}
		raw, err := unknown.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		frame, err := (&metav1.WatchEvent{Type: event, Object: k8sruntime.RawExtension{Raw: append([]byte("k8s\x00"), raw...)}}).Marshal()
		if err != nil {
			b.Fatal(err)
		}
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(frame))), frame...)
	}
	for rest := unknown.Raw; len(rest) > 0; {
		field, _, n := protowire.ConsumeTag(rest)
		value, m := protowire.ConsumeBytes(rest[n:])
		if n < 0 || m < 0 {
			b.Fatal("the list does not parse")
		}
		if rest = rest[n+m:]; field == 2 {
			add("ADDED", value)
		}
	}
	meta := metav1.ObjectMeta{
		ResourceVersion: "1000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}
	inner, err := meta.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	add("BOOKMARK", protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner))
	return frames
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("watch") == "" {
		s.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if body := s.bodies[r.URL.Path]; body != nil {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		if q.Get("sendInitialEvents") != "" {
			_, _ = w.Write(body)
		}
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
