package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// maxOutput limits what a command may write to each of its streams, in bytes.
const maxOutput = 1 << 20

// Exec runs a command in a container of the pod, without a shell and without input, and returns what it wrote to its standard output.
// The user needs the verbs get and create on pods/exec, as for [Pod.Dial] on pods/portforward. If the command ran and failed, the error is
// the first line that it wrote to its standard error, or says how it ended.
func (p *Pod) Exec(ctx context.Context, container string, command ...string) (stdout []byte, err error) {
	u := p.request("exec").VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	sockets, err := remotecommand.NewWebSocketExecutor(p.cluster.config, http.MethodGet, u.String())
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	plain, err := remotecommand.NewSPDYExecutor(p.cluster.config, http.MethodPost, u)
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(sockets, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("exec in pod %s: %w", p.Name, err)
	}
	var out, errs limitedBuffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
	switch {
	case err == nil && !out.full:
		return out.Bytes(), nil
	case err == nil:
		err = fmt.Errorf("the command wrote more than %d bytes", maxOutput)
	case out.Len()+errs.Len() > 0:
		if line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); line != "" {
			err = errors.New(clip(line))
		}
		return out.Bytes(), err
	}
	return nil, fmt.Errorf("exec in pod %s, container %s: %w", p.Name, container, errors.New(clip(err.Error())))
}

// limitedBuffer drops what exceeds maxOutput.
type limitedBuffer struct {
	bytes.Buffer
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	rest := p[:min(len(p), maxOutput-b.Len())]
	b.full = b.full || len(rest) < len(p)
	b.Buffer.Write(rest)
	return len(p), nil
}

// WhoAmI returns the name of the user that the API server knows the caller as.
func (c *Cluster) WhoAmI(ctx context.Context) (string, error) {
	review, err := c.users.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username == "" {
		err = errors.New("the answer has no name")
	}
	if err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
