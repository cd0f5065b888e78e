package forwardtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// execProtocol is the subprotocol of commands.
const execProtocol = "v4.channel.k8s.io"

// Exec runs a command in a container and returns its exit status.
type Exec func(ctx context.Context, pod, container string, command []string, stdout, stderr io.Writer) (status int)

// ServeHTTP implements [http.Handler]: it answers the paths of kubelets, /exec/NAMESPACE/POD/CONTAINER, and of API servers, which end
// in /pods/POD/exec. Every command must have an output and an error stream, and no input.
func (e Exec) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, parts := r.URL.Query(), strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	pod, container := "", query.Get("container")
	switch n := len(parts); {
	case n == 4 && parts[0] == "exec":
		pod, container = parts[2], parts[3]
	case n >= 3 && parts[n-1] == "exec":
		pod = parts[n-2]
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "WebSockets are not supported", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{execProtocol}); err != nil {
		return // the error has been answered
	}
	opened := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if conn == nil {
		return // the error has been answered
	}
	defer conn.Close()
	streams := make(map[string]httpstream.Stream)
	for len(streams) < 3 {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		case <-r.Context().Done():
			return
		}
	}
	result := metav1.Status{Status: metav1.StatusSuccess}
	code := e(r.Context(), pod, container, query["command"], streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr])
	if code != 0 {
		result = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with exit code " + strconv.Itoa(code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}}}}
	}
	streams[corev1.StreamTypeStdout].Close()
	streams[corev1.StreamTypeStderr].Close()
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(result)
	streams[corev1.StreamTypeError].Close()
	<-conn.CloseChan() // the client ends the connection when it has read everything
}
