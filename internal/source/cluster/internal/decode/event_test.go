package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/routesrv/routesrv/kube"
)

// services is the type of the events that are read.
var services = Type{Kind: kube.KindService, APIVersion: "v1"}

// streamOf is a stream with one event of each type, in both encodings.
func streamOf(t testing.TB) map[string][]byte {
	t.Helper()
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: "7"}, Spec: corev1.ServiceSpec{ExternalName: "x.org"}}
	mark := corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	status := metav1.Status{Message: "too old", Reason: metav1.StatusReasonExpired, Code: 410}
	out := map[string][]byte{}
	for _, e := range []struct {
		event EventType
		kind  string
		o     interface{ Marshal() ([]byte, error) }
	}{
		{Added, "Service", &service}, {Modified, "Service", &service}, {Bookmark, "Service", &mark}, {Deleted, "Service", &service}, {Failed, "Status", &status},
	} {
		raw, err := e.o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: e.kind}, Raw: raw}
		body, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		frame, err := (&metav1.WatchEvent{Type: string(e.event), Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), body...)}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out[MediaProtobuf] = append(binary.BigEndian.AppendUint32(out[MediaProtobuf], uint32(len(frame))), frame...)
	}
	out[MediaJSON] = []byte(`{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"MODIFIED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"DELETED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","message":"too old","reason":"Expired","code":410}}
`)
	return out
}

// read reads a stream to its end. The objects are decoded.
func read(media string, body io.Reader, limit int64) (all []string, err error) {
	in := NewEvents(services, media, body, limit)
	for {
		e, err := in.Next()
		if err != nil {
			return all, err
		}
		text := fmt.Sprintf("%s %s/%s %d %t", e.Type, e.Namespace, e.Name, e.Revision, e.Loaded)
		if e.Status != nil {
			text += fmt.Sprint(" ", e.Status.Code, " ", e.Status.Reason, " ", e.Status.Message)
		}
		if e.Object != nil {
			o, err := new(Decoder).Object(services.Kind, media, e.Object)
			text += fmt.Sprintf(" %+v %v", o, err)
		}
		all = append(all, text)
	}
}

func TestBothEncodingsGiveTheSameEvents(t *testing.T) {
	streams := streamOf(t)
	want, err := read(MediaJSON, bytes.NewReader(streams[MediaJSON]), 1<<20)
	if len(want) != 5 || !errors.Is(err, io.EOF) || want[2] != "BOOKMARK / 9 true" || want[4] != "ERROR / 0 false 410 Expired too old" {
		t.Errorf("%q, %v", want, err)
	}
	for media, body := range streams {
		got, err := read(media, iotest.OneByteReader(bytes.NewReader(body)), 1<<20)
		if d := cmp.Diff(want, got); d != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v -JSON +this\n%s", media, err, d)
		}
	}
}

// A stream that breaks has its events up to there, and ends as agreed only between two of them.
func TestAStreamEndsBetweenTwoEventsOnly(t *testing.T) {
	for media, body := range streamOf(t) {
		all, _ := read(media, bytes.NewReader(body), 1<<20)
		ends := 0
		for n := range len(body) + 1 {
			got, err := read(media, bytes.NewReader(body[:n]), 1<<20)
			if !slices.Equal(all[:len(got)], got) {
				t.Fatalf("%s, %d bytes: %q, want the first of %q", media, n, got, all)
			}
			switch {
			case errors.Is(err, io.EOF):
				ends++
			case !errors.Is(err, io.ErrUnexpectedEOF):
				t.Errorf("%s, %d bytes: %v", media, n, err)
			}
		}
		// In JSON an event is complete without its line feed.
		if want := map[string]int{MediaJSON: 11, MediaProtobuf: 6}[media]; ends != want {
			t.Errorf("%s: %d ends, want %d", media, ends, want)
		}
		broken := errors.New("the network")
		if _, err := read(media, io.MultiReader(bytes.NewReader(body), iotest.ErrReader(broken)), 1<<20); !errors.Is(err, broken) {
			t.Errorf("%s: %v, want the error of the network", media, err)
		}
	}
}

func TestWhatIsNoEventIsABadOne(t *testing.T) {
	streams := streamOf(t)
	protobuf := streams[MediaProtobuf][:4+binary.BigEndian.Uint32(streams[MediaProtobuf])] // the first
	for _, tt := range []struct {
		name, media string
		body        []byte
	}{
		{"a page", MediaJSON, []byte("<html>")},
		{"a number", MediaJSON, []byte("7 ")},
		{"no type", MediaJSON, []byte(`{"object":{"kind":"Service","apiVersion":"v1"}}`)},
		{"no object", MediaJSON, []byte(`{"type":"ADDED"}`)},
		{"another type", MediaJSON, bytes.Replace(streams[MediaJSON], []byte("ADDED"), []byte("OTHER"), 1)},
		{"another kind", MediaJSON, bytes.Replace(streams[MediaJSON], []byte("Service"), []byte("Pod"), 1)},
		{"another version", MediaJSON, bytes.Replace(streams[MediaJSON], []byte(`"v1"`), []byte(`"v2"`), 1)},
		{"no name", MediaJSON, bytes.Replace(streams[MediaJSON], []byte(`"name":"a"`), []byte(`"name":""`), 1)},
		{"an opaque revision", MediaJSON, bytes.Replace(streams[MediaJSON], []byte(`"7"`), []byte(`"x7"`), 1)},
		{"too large", MediaJSON, append([]byte(`{"type":"ADDED","x":"`), bytes.Repeat([]byte("x"), 5000)...)},
		{"too large", MediaProtobuf, []byte{0x7f, 0xff, 0xff, 0xff}},
		{"no frame", MediaProtobuf, []byte("\x00\x00\x00\x03xxx")},
		{"no envelope", MediaProtobuf, bytes.Replace(protobuf, []byte("k8s"), []byte("k9s"), 1)},
		{"another kind", MediaProtobuf, bytes.Replace(protobuf, []byte("Service"), []byte("Cervice"), 1)},
	} {
		got, err := read(tt.media, bytes.NewReader(tt.body), 2000)
		if bad := (*BadEventError)(nil); len(got) != 0 || !errors.As(err, &bad) {
			t.Errorf("%s, %s: %q, %v, want a bad event", tt.name, tt.media, got, err)
		}
	}
}

// FuzzEvents: whatever comes is read to an end without a panic, and in pieces as it is as a whole.
func FuzzEvents(f *testing.F) {
	for media, body := range streamOf(f) {
		f.Add(media == MediaProtobuf, body)
		f.Add(media == MediaProtobuf, body[:len(body)-9])
	}
	f.Add(false, []byte(strings.Repeat("[", 20000)))
	f.Fuzz(func(t *testing.T, protobuf bool, body []byte) {
		media := MediaJSON
		if protobuf {
			media = MediaProtobuf
		}
		whole, err := read(media, bytes.NewReader(body), 10000)
		pieces, again := read(media, iotest.OneByteReader(bytes.NewReader(body)), 10000)
		if err == nil || again == nil {
			t.Fatalf("%v, %v: a stream without an end", err, again)
		}
		// How much is read ahead decides where a stream in JSON is found to be too large, and nothing else.
		if errors.Is(err, ErrTooLarge) || errors.Is(again, ErrTooLarge) {
			return
		}
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Errorf("-as a whole +in pieces\n%s", d)
		}
	})
}
