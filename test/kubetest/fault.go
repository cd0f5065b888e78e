package kubetest

import (
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/routesrv/routesrv/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a way in which requests fail. The zero Fault is none.
type Fault struct {
	// Times is how many requests meet the fault; 0 means all.
	Times int

	// Status is answered with a Status object of the API that has the reason and message of a real server. Location is for the
	// status of a redirect.
	Status   int
	Location string

	// Body and ContentType replace the body and type of a successful answer. Raw replaces the bytes after compression, so that a
	// body can be cut without any transport noticing.
	Body        []byte
	Raw         []byte
	ContentType string

	// Cut closes the connection after that many bytes of the body; Content-Length states the full length. CutChunked does the
	// same without Content-Length. Negative values count from the end. Reset resets the connection before the first byte.
	Cut        int
	CutChunked int
	Reset      bool

	// Short ends the body after that many bytes without an error: Content-Length agrees. Negative values count from the end.
	Short int

	// Hang keeps the connection open and never answers.
	Hang bool

	// Revision is what a list claims instead of the revision of the store.
	Revision kube.Revision
	// Stuck is the revision where the watch cache of the kind stays, so that requests for anything not older than a later
	// revision fail. Consistent lists bypass the cache.
	Stuck kube.Revision
	// State makes lists return the state of an earlier revision, which must not be compacted; they also claim that revision.
	State kube.Revision
	// Without is how many of a hundred items are missing from a list; 100 leaves none.
	Without int

	spent int
}

// SetFault makes requests for the path (without query) fail from now on; the zero Fault ends that.
func (s *Server) SetFault(path string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.isZero() {
		delete(s.faults, path)
		return
	}
	s.faults[path] = &f
}

func (f *Fault) isZero() bool {
	return f.Status == 0 && f.Body == nil && f.Raw == nil && f.ContentType == "" && !f.breaks() && !f.Hang && f.Revision == 0 &&
		f.Stuck == 0 && f.State == 0 && f.Without == 0 && f.Short == 0
}

// spend reports whether the fault still acts, and counts the use.
func (f *Fault) spend() bool {
	if f.Times != 0 && f.spent >= f.Times {
		return false
	}
	f.spent++
	return true
}

// replace puts the fault's body and content type into the answer.
func (f *Fault) replace(a *answer) {
	if f.Body != nil {
		a.body = f.Body
	}
	if f.ContentType != "" {
		a.contentType = f.ContentType
	}
	if n := f.Short; n != 0 {
		if n < 0 {
			n += len(a.body)
		}
		a.body = a.body[:max(0, min(n, len(a.body)))]
	}
}

// breaks reports whether the connection ends before the whole answer is sent.
func (f *Fault) breaks() bool { return f.Cut != 0 || f.CutChunked != 0 || f.Reset }

// send sends as much of the answer as the fault allows and drops the connection.
func (f *Fault) send(w http.ResponseWriter, a answer) {
	if f.Reset {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // programming error: the fault needs HTTP/1
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // RST instead of FIN
		}
		_ = conn.Close()
		return
	}
	n := f.Cut
	if n != 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	} else {
		n = f.CutChunked
	}
	if n < 0 {
		n += len(a.body)
	}
	n = max(0, min(n, len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) // net/http's way to drop a connection in the middle of an answer
}

func (f *Fault) answer(asProtobuf bool) answer {
	switch f.Status {
	case http.StatusGone:
		return failure(f.Status, metav1.StatusReasonExpired, "The resourceVersion for the provided list is too old.", asProtobuf)
	case http.StatusForbidden:
		return failure(f.Status, metav1.StatusReasonForbidden, `User "system:serviceaccount:x:y" cannot do this`, asProtobuf)
	case http.StatusUnauthorized:
		return failure(f.Status, metav1.StatusReasonUnauthorized, "Unauthorized", asProtobuf)
	case http.StatusNotFound:
		return failure(f.Status, metav1.StatusReasonNotFound, "the server could not find the requested resource", asProtobuf)
	default:
		return failure(f.Status, metav1.StatusReasonInternalError, "fault", asProtobuf)
	}
}

// failure returns an answer with a Status object.
func failure(code int, reason metav1.StatusReason, message string, asProtobuf bool) answer {
	return status(metav1.Status{Message: message, Reason: reason, Code: int32(code)}, asProtobuf)
}

// tooLarge returns the answer to a resourceVersion that the server has not reached.
func tooLarge(asked, has kube.Revision, asProtobuf bool) answer {
	return status(metav1.Status{
		Message: fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", asked, has),
		Reason:  metav1.StatusReasonTimeout,
		Code:    http.StatusGatewayTimeout,
		Details: &metav1.StatusDetails{
			Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
			RetryAfterSeconds: 1,
		},
	}, asProtobuf)
}
