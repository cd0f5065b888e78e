package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// statusFilter sets the status of an answer that another filter of the chain serves. It serves no answer itself.
func statusFilter(args []any) (requestFilter, error) {
	if len(args) != 1 {
		return requestFilter{}, errors.New("want one number")
	}
	n, ok := args[0].(float64)
	code := int(n)
	if !ok || float64(code) != n || code < 200 || code > 599 {
		return requestFilter{}, fmt.Errorf("status %v: want an integer from 200 to 599", args[0])
	}
	return requestFilter{response: func(x *exchange) {
		if x.served != nil {
			x.served.status = code
		}
	}}, nil
}

// inlineContentFilter serves a text, with the given content type, if any.
func inlineContentFilter(args []any) (requestFilter, error) {
	texts, err := stringArgs(args, 1, 2)
	if err != nil {
		return requestFilter{}, err
	}
	body := texts[0]
	contentType := http.DetectContentType([]byte(body))
	if len(texts) == 2 {
		contentType = texts[1]
	}
	return requestFilter{request: func(x *exchange) {
		x.served = &servedResponse{status: http.StatusOK, body: body, header: http.Header{
			"Content-Type":   {contentType},
			"Content-Length": {strconv.Itoa(len(body))},
		}}
	}}, nil
}

// headerFilter changes a header of every response.
func headerFilter(name string, args []any) (requestFilter, error) {
	want := 2
	if name == "dropResponseHeader" {
		want = 1
	}
	texts, err := stringArgs(args, want, want)
	if err != nil {
		return requestFilter{}, err
	}
	return requestFilter{response: func(x *exchange) {
		switch name {
		case "setResponseHeader":
			x.header.Set(texts[0], texts[1])
		case "appendResponseHeader":
			x.header.Add(texts[0], texts[1])
		case "dropResponseHeader":
			x.header.Del(texts[0])
		}
	}}, nil
}

// mtlsAuthnFilter rejects clients without a verified certificate.
func mtlsAuthnFilter(args []any) (requestFilter, error) {
	if len(args) != 0 {
		return requestFilter{}, errors.New("want no arguments")
	}
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) {
			x.served = refuse(http.StatusUnauthorized, "no verified client certificate\n")
		}
	}}, nil
}

// mtlsCNFilter rejects clients whose verified certificate has none of the common names.
func mtlsCNFilter(args []any) (requestFilter, error) {
	names, err := stringArgs(args, 1, len(args))
	if err != nil {
		return requestFilter{}, err
	}
	return requestFilter{request: func(x *exchange) {
		if !verified(x.r) || !slices.Contains(names, x.r.TLS.VerifiedChains[0][0].Subject.CommonName) {
			x.served = refuse(http.StatusForbidden, "client certificate has another common name\n")
		}
	}}, nil
}

func verified(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.VerifiedChains[0]) > 0
}

func refuse(status int, text string) *servedResponse {
	return &servedResponse{status: status, body: text, header: http.Header{
		"Content-Type": {"text/plain; charset=utf-8"},
	}}
}

// stringArgs requires between least and most arguments, all strings.
func stringArgs(args []any, least, most int) ([]string, error) {
	if len(args) < least || len(args) > most {
		want := fmt.Sprintf("%d to %d strings", least, most)
		switch {
		case most < least:
			want = "at least one string"
		case most == least:
			want = fmt.Sprintf("%d strings", most)
		}
		return nil, fmt.Errorf("%d arguments: want %s", len(args), want)
	}
	texts := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("argument %d is %v: want a string", i+1, a)
		}
		texts[i] = s
	}
	return texts, nil
}
